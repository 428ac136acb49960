"""Games of PettingZoo: each agent is a player, and so a row."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import gin
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array, iterate

from seed_rl.envs.base import CannotBuild, EnvConfig, Watchable, spec_of
from seed_rl.envs.checks import sentences_of
from seed_rl.envs.games import Game, GamesVectorEnv, Played
from seed_rl.envs.masks import packed
from seed_rl.envs.rendering import watched
from seed_rl.envs.wrappers import FlatVectorEnv
from seed_rl.foreign import json_object
from seed_rl.settings import Count, Within

_MASK = "action_mask"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PettingZoo(EnvConfig):
    """A game whose players act at the same time, or in turn, as in tic-tac-toe.

    Where players take turns, observations have a flag `turn`, and the others wait: they have a single legal action,
    which has no effect. Players that leave before the end of the game observe zeros and wait until it ends.
    """

    suite: ClassVar[str] = "pettingzoo"
    task_setting: ClassVar[str] = "env"

    env: str = "pettingzoo.classic.tictactoe_v3"
    """A module with a function `parallel_env` or `env`, like PettingZoo's own, or `module:Class` of a `ParallelEnv` or
    `AECEnv`. Actors on other machines need `--import_module` for modules that aren't PettingZoo's."""
    players: Count = 2
    """Number of the game's agents."""
    options: str = "{}"
    """Keyword arguments of the environment, a JSON object."""
    roles: tuple = ()
    """Roles of the agents, as the beginnings of their names, such as `('adversary', 'agent')`; each player then
    observes its role as a one-hot code `role`."""
    frame_size: Annotated[int, Within(0)] = 0
    """Height and width to which larger frames are shrunk, in the actor; 0: they keep their size."""
    grayscale: bool = False
    """Turn RGB frames into gray ones, in the actor."""

    def __post_init__(self):
        super().__post_init__()
        try:
            json_object(self.options)
        except ValueError as error:
            raise ValueError(
                f"PettingZoo.options must be a JSON object, got {self.options[:200]!r}: {error}"
            ) from error
        if not all(isinstance(role, str) and role for role in self.roles):
            raise ValueError(f"PettingZoo.roles must be beginnings of agents' names, got {self.roles!r}")

    @property
    def packages(self) -> dict[str, str]:
        return {"pettingzoo": "pip install pettingzoo pygame"}

    @property
    def modules(self) -> tuple[str, ...]:
        module = self.env.partition(":")[0]
        return () if module.startswith("pettingzoo.") else (module,)

    def watch(self) -> Watchable:
        """Draws the game's own rendering; without one, the first player's observations if they are pictures."""
        return watched(self.make, self.players, self.env)

    def make(self, num_envs: int, **more_options: Any) -> VectorEnv:
        self.check_rows("the number of environments", num_envs)
        self.check_packages()
        options = {**json.loads(self.options), **more_options}
        with sentences_of(self.env):
            env = GamesVectorEnv([_Zoo(self, options) for _ in range(num_envs // self.players)])
            flat = packed(FlatVectorEnv(env, self.env, (), self.frame_size, self.grayscale), name=self.env)
            spec_of(flat)
        return flat


class _Zoo(Game):
    """A game whose seats are the `possible_agents` of PettingZoo's environment, in order."""

    def __init__(self, config: PettingZoo, options: Mapping[str, Any]):
        self._env, self._turns = _made(config.env, options)
        self._agents = list(getattr(self._env, "possible_agents", ()))
        self._terminated: set[Any] = set()
        self.players = config.players
        if len(self._agents) != self.players:
            found = f"{len(self._agents)}, the number of `possible_agents` in {config.env}"
            raise CannotBuild(f"PettingZoo.players must be {found}, got {self.players}")
        own, self.action_space = self._common("observations"), self._common("action_space")
        self._blank = next(iter(iterate(batch_space(own, 1), create_empty_array(own, 1))))
        parts = _named(own.spaces if isinstance(own, spaces.Dict) else own)
        self._roles = [_role_of(agent, config.roles) for agent in self._agents]
        if config.roles:
            parts["role"] = spaces.Box(0, 1, (len(config.roles),), np.int8)
        if self._turns is not None:
            parts["turn"] = spaces.Box(0, 1, (1,), np.int8)
        if isinstance(self.action_space, spaces.Discrete):
            parts[_MASK] = spaces.Box(0, 1, (int(self.action_space.n),), np.int8)
        self.observation_space = spaces.Dict(parts)

    def reset(self, seed: int) -> Sequence[Any]:
        self._terminated = set()
        observations, infos = self._env.reset(seed=seed)
        return self._observed(observations, infos, list(self._env.agents))

    def step(self, actions: Sequence[Any]) -> Played:
        taken = {
            agent: action for agent, action in zip(self._agents, actions, strict=True) if agent in self._env.agents
        }
        observations, rewards, terminations, truncations, infos = self._env.step(taken)
        self._terminated.update(agent for agent, ends in terminations.items() if ends)
        alive = [each for each in self._env.agents if not (terminations[each] or truncations[each])]
        terminated = [not alive and agent in self._terminated for agent in self._agents]
        truncated = [not alive and agent not in self._terminated for agent in self._agents]
        reward = [float(rewards.get(agent, 0.0)) for agent in self._agents]
        return Played(self._observed(observations, infos, alive), reward, terminated, truncated)

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()

    def _observed(self, observations: Any, infos: Any, alive: Sequence[Any]) -> Sequence[Any]:
        """The players' observations; `alive` are the agents that go on, none at the end of the game."""
        found = []
        for agent, role in zip(self._agents, self._roles, strict=True):
            parts = _named(observations.get(agent, self._blank))
            has_left = agent not in observations or (bool(alive) and agent not in alive)
            acts = not has_left and (self._turns is None or self._turns.agent_selection == agent)
            extra = {"turn": np.array([acts], np.int8), "role": role}
            if _MASK in self.observation_space.spaces:  # type: ignore[attr-defined]
                size = self.observation_space[_MASK].shape  # type: ignore[index]
                mask = parts.get(_MASK, infos.get(agent, {}).get(_MASK, np.ones(size, np.int8)))
                extra[_MASK] = mask if acts else np.eye(1, *size, dtype=np.int8)[0]
            found.append({**parts, **extra})
        return found

    def _common(self, what: str) -> Any:
        """The space that all players have."""
        method = getattr(self._env, "observation_space" if what == "observations" else what)
        for agent in self._agents:
            if (own := method(agent)) != (first := method(self._agents[0])):
                came = f"{self._agents[0]} has {first}, {agent} {own}"
                raise CannotBuild(f"players must have equal spaces, but {came}: supersuit.pad_{what}_v0 can pad them")
        return first


def _made(path: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Makes an environment with PettingZoo's parallel interface; returns it, and the turn-based one below, if any."""
    from pettingzoo.utils import conversions
    from pettingzoo.utils.env import AECEnv, ParallelEnv

    name, _, attribute = path.partition(":")
    module = importlib.import_module(name)
    make = (
        getattr(module, attribute, None) if attribute else getattr(module, "parallel_env", getattr(module, "env", None))
    )
    # A learner may send this name.
    if not (callable(make) and (not attribute or (isinstance(make, type) and issubclass(make, AECEnv | ParallelEnv)))):
        raise CannotBuild(f"{path} has no function `parallel_env` or `env`, or is no class of PettingZoo's interfaces")
    env = make(**options)
    if not isinstance(env, AECEnv):
        return env, None
    if env.metadata.get("is_parallelizable", False):
        return conversions.aec_to_parallel(env), None
    return conversions.turn_based_aec_to_parallel(env), env


def _named(observation: Any) -> dict[str, Any]:
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}


def _role_of(agent: Any, roles: Sequence[str]) -> np.ndarray:
    """The one-hot code of an agent's role, int8 [R]."""
    fits = np.array([str(agent).startswith(role) for role in roles], np.int8)
    if fits.sum() != bool(roles):
        raise CannotBuild(f"exactly one of PettingZoo.roles must begin the name of each agent, not so for {agent!r}")
    return fits
