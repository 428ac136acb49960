"""A game in PettingZoo's parallel interface whose agents leave one after another."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Leaving(ParallelEnv):
    """Agent i leaves after i + 1 steps.

    Agents observe 1 + their index, the step, and their last action, which is also their reward, in the array of the
    observation before; under another name, they observe the step once more.
    """

    possible_agents = ("runner_0", "runner_1", "sitter_0")

    def __init__(self, unequal=False, truncated=("sitter_0",), also=None):
        self._unequal, self._truncated, self._also = unequal, truncated, also
        self._seen = {agent: np.zeros(3, np.float32) for agent in self.possible_agents}

    def observation_space(self, agent):
        own = spaces.Box(0, 9, (4 if self._unequal and agent == "sitter_0" else 3,), np.float32)
        return spaces.Dict({"observation": own, self._also: spaces.Box(0, 9, (1,))}) if self._also else own

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self._steps = list(self.possible_agents), 0
        return self._results(dict.fromkeys(self.agents, 0)), {}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self._steps += 1
        gone = [agent for agent in actions if self.possible_agents.index(agent) < self._steps]
        terminations = {agent: agent in gone and agent not in self._truncated for agent in actions}
        truncations = {agent: agent in gone and agent in self._truncated for agent in actions}
        observations = self._results(actions)
        self.agents = [agent for agent in self.agents if agent not in gone]
        rewards = {agent: float(action) for agent, action in actions.items()}
        return observations, rewards, terminations, truncations, {}

    def _results(self, actions):
        for agent, last in actions.items():
            self._seen[agent][:] = 1 + self.possible_agents.index(agent), self._steps, last
        if self._also:
            step = np.array([self._steps], np.float32)
            return {agent: {"observation": self._seen[agent], self._also: step} for agent in actions}
        return {agent: self._seen[agent] for agent in actions}


parallel_env = Leaving
