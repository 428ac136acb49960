"""A game of three that take turns, in which the second is out after its first move; only who moves has a mask."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv


class Eliminating(AECEnv):
    metadata = {"name": "eliminating", "is_parallelizable": False}  # noqa: RUF012
    possible_agents = ["player_0", "player_1", "player_2"]  # noqa: RUF012
    render_mode = None

    def observation_space(self, agent):
        parts = {"observation": spaces.Box(0, 9, (1,), np.float32), "action_mask": spaces.Box(0, 1, (3,), np.int8)}
        return spaces.Dict(parts)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        mask = np.full(3, agent == self.agent_selection, np.int8)
        return {"observation": np.array([self._moves], np.float32), "action_mask": mask}

    def reset(self, seed=None, options=None):
        self.agents, self._moves = [*self.possible_agents], 0
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action):
        if self.terminations[mover := self.agent_selection]:
            return self._was_dead_step(action)
        self._moves += 1
        self._cumulative_rewards[mover] = 0
        self.rewards = {agent: float(agent == mover) for agent in self.agents}
        self.agent_selection = self.agents[(self.agents.index(mover) + 1) % len(self.agents)]
        self.terminations[mover] = mover == "player_1"
        if self._moves == 5:
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        return self._deads_step_first()


def env():
    return Eliminating()
