"""Games of PettingZoo: each agent is a player, and so a row."""

import dataclasses
import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import gin
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate

from seed_rl.envs.base import CannotBuild, EnvConfig, Watchable
from seed_rl.envs.checks import sentences_of
from seed_rl.envs.spaces import check_size, tensors_of
from seed_rl.envs.vector.games import Game, GamesVectorEnv
from seed_rl.envs.vector.rendering import make_watchable
from seed_rl.envs.vector.wrappers import MASK, FlatVectorEnv
from seed_rl.foreign import JsonObject
from seed_rl.settings import Count, Within


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PettingZoo(EnvConfig):
    """A game whose players act at the same time, or in turn, as in tic-tac-toe.

    Where players take turns, observations have a flag `turn`, and the others wait: they have a single legal action,
    which has no effect. Players that leave before the end of the game observe zeros and wait until it ends.
    """

    suite: ClassVar[str] = "pettingzoo"
    task_setting: ClassVar[str] = "env"

    env: str = "classic/tictactoe-v3"
    """A registered id, or a module with a function `parallel_env` or `env`, such as `mpe2.simple_spread_v3`, for which
    actors on other machines need `--import_module`."""
    players: Count = 2
    """Number of the game's agents."""
    options: Annotated[str, JsonObject()] = "{}"
    """Keyword arguments of the environment, a JSON object."""
    keys: tuple[str, ...] = ()
    """Names of the parts of an observation to keep, or of those to drop, with a minus in front, as in `Gym.keys`."""
    roles: tuple[str, ...] = ()
    """Roles of the agents, as the beginnings of their names, such as `('adversary', 'agent')`; each player then
    observes its role as a one-hot code `role`."""
    frame_size: Annotated[int, Within(0)] = 0
    """Height and width to which larger frames are shrunk, in the actor; 0: they keep their size."""
    grayscale: bool = False
    """Turn RGB frames into gray ones, in the actor."""

    @classmethod
    def tasks(cls) -> list[str]:
        found = importlib.util.find_spec("pettingzoo")
        return sorted(importlib.import_module("pettingzoo").aec_registry) if found else []

    @property
    def packages(self) -> dict[str, str]:
        return {"pettingzoo": "pip install pettingzoo pygame"}

    @property
    def modules(self) -> tuple[str, ...]:
        return () if "/" in self.env else (self.env,)

    def watch(self) -> Watchable:
        return make_watchable(self.make, self.players, self.env)

    def make(self, num_envs: int, **more_options: Any) -> VectorEnv:
        self.check_rows("the number of environments", num_envs)
        self.check_packages()
        options = json.loads(self.options) | more_options
        with sentences_of(self.env):
            games = [_Zoo(self, self._make_one(options)) for _ in range(num_envs // self.players)]
        how = self.keys, self.frame_size, self.grayscale, games[0].added
        return FlatVectorEnv(GamesVectorEnv(games), *how, name=self.env)

    def _make_one(self, options: Mapping[str, Any]) -> Any:
        """Build one environment of PettingZoo, with its parallel interface if it has one."""
        import pettingzoo

        if "/" in self.env:
            kind: Any = "parallel" if self.env in pettingzoo.parallel_registry else "aec"
            return pettingzoo.make(kind, self.env, **options)
        module = importlib.import_module(self.env)
        return (getattr(module, "parallel_env", None) or module.env)(**options)


class _Zoo(Game):
    """A game whose seats are the `possible_agents` of PettingZoo's environment, in order."""

    def __init__(self, config: PettingZoo, env: Any):
        from pettingzoo.utils import AECEnv, aec_to_parallel, turn_based_aec_to_parallel

        self._turns = env if isinstance(env, AECEnv) and not (env.metadata or {}).get("is_parallelizable") else None
        if isinstance(env, AECEnv):
            env = (aec_to_parallel if self._turns is None else turn_based_aec_to_parallel)(env)
        self.env, self._agents, self.players = env, list(env.possible_agents), config.players
        if len(self._agents) != self.players:
            raise CannotBuild(f"PettingZoo.players must be {len(self._agents)} for {config.env}, got {self.players}")
        roles = [[agent.startswith(role) for role in config.roles] for agent in self._agents]
        if any(sum(own) != bool(config.roles) for own in roles):
            raise CannotBuild(f"one of PettingZoo.roles must begin each of {self._agents}, got {config.roles}")
        self._roles = np.array(roles, np.int8)
        every = {k: {a: getattr(env, k)(a) for a in self._agents} for k in ("observation_space", "action_space")}
        for kind, each in every.items():
            if any(space != each[self._agents[0]] for space in each.values()):
                raise CannotBuild(f"players must have equal spaces (supersuit pads them), but {kind} is {each}"[:500])
        own, self.action_space = (each[self._agents[0]] for each in every.values())
        check_size("actions", self.action_space)
        self._blank = next(iter(iterate(batch_space(own, 1), create_empty_array(own, 1))))
        self._choices = int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else 0
        flags = {"turn": int(self._turns is not None), "role": len(config.roles), MASK: self._choices}
        added = {name: spaces.Box(0, 1, (size,), np.int8) for name, size in flags.items() if size}
        if taken := sorted(tensors_of(own).keys() & added.keys() - {MASK}):
            raise CannotBuild(f"{config.env} already has an observation {taken[0]!r}, which would be replaced")
        self.added = tuple(added)
        self.observation_space = spaces.Dict(tensors_of(own) | added)

    def reset(self, seed: int) -> Sequence[Any]:
        self._terminated: set[str] = set()
        return self._observations(self.env.reset(seed=seed)[0], self.env.agents)

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any]:
        taken = {agent: actions[seat] for seat, agent in enumerate(self._agents) if agent in self.env.agents}
        observations, rewards, terminations, truncations, _ = self.env.step(taken)
        self._terminated |= {agent for agent, ends in terminations.items() if ends}
        alive = [each for each in self.env.agents if not (terminations.get(each) or truncations.get(each))]
        if self._turns is not None and len(self.env.agents) < len(taken):  # it was the turn of a player that left
            observations = {**observations, **{each: self._turns.observe(each) for each in alive}}
        if alive:  # who has left for any reason gets no further rewards
            self._terminated |= taken.keys() - set(alive)
        terminated = np.array([agent in self._terminated for agent in self._agents])
        reward = [float(rewards.get(agent, 0.0)) for agent in self._agents]
        return self._observations(observations, alive), reward, terminated & (not alive), ~terminated & (not alive)

    def _observations(self, observations: Any, alive: Sequence[str]) -> Sequence[Any]:
        """The players' observations; `alive` are the agents that go on, none at the end of the game."""
        found = []
        for agent, role in zip(self._agents, self._roles, strict=True):
            parts = tensors_of(observations.get(agent, self._blank))
            plays = agent in observations and (not alive or agent in alive)
            acts = plays and (self._turns is None or self._turns.agent_selection == agent)
            mask = parts.get(MASK, np.ones(self._choices, np.int8))
            if self._choices and not acts:
                mask = np.arange(self._choices) == 0
            more = {"turn": np.array([acts], np.int8), "role": role, MASK: mask}
            found.append(parts | {name: more[name] for name in self.added})
        return found
