"""Action masks of environments, packed into bits of the observation.

Shapes: E environments, N values, which are A actions or the values of K choices one after another.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import EnvironmentFailed, spec_of
from seed_rl.envs.vector.final import ConvertedVectorEnv
from seed_rl.specs import LEGAL_ACTIONS, MultiDiscreteSpec, choices_of

MASK = "action_mask"
"""The part of an observation that is an action mask, as in PettingZoo: 1 for each legal action, 0 for the others."""


def pack_masks(env: VectorEnv, name: str = "an environment") -> VectorEnv:
    """Pack the action masks in observations to bits, as `specs.EnvSpec` says; without masks, return `env`.

    Steps raise EnvironmentFailed if an environment allows no action, except at the end of an episode.

    Args:
      env: environments with spaces as of `FlatVectorEnv`. Their masks, `action_mask` or the parts of it, have
        N values, or one for each combination of K choices, which then become a single choice.
      name: name of the environments in messages.

    Raises:
      ValueError: the masks have another size.
    """
    # 10 comes after 9
    keys = sorted(
        (key for key in tensors_of(env.single_observation_space) if f"{key}/".startswith(f"{MASK}/")), key=len
    )
    return _PackedMasks(env, name, keys) if keys else env


class _PackedMasks(ConvertedVectorEnv):
    """Packs masks of N values, the tensors `keys` of the observation."""

    def __init__(self, env: VectorEnv, name: str, keys: list[str]):
        super().__init__(env)
        self._name, self._keys = name, keys
        action = spec_of(env).action
        choices = choices_of(action)
        size = sum(math.prod(tensors_of(env.single_observation_space)[key].shape) for key in keys)
        self._combined: tuple[int, ...] = ()
        if isinstance(action, MultiDiscreteSpec) and size == math.prod(choices) != sum(choices):
            self._combined, choices = choices, (size,)
            self.single_action_space = spaces.Discrete(size)
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        elif size != sum(choices):
            wanted = f"a mask of {sum(choices)} values" if choices else "no mask"
            remedy = f"keys = ('-{MASK}',) drops it"
            raise ValueError(f"actions {env.single_action_space} take {wanted}, but {MASK} has {size}: {remedy}")
        self._starts = np.cumsum((0, *choices[:-1]))
        bits = {LEGAL_ACTIONS: spaces.Box(0, 255, (-(-size // 8),), np.uint8)}
        self.single_observation_space = spaces.Dict(self._rest(env.single_observation_space) | bits)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def own_actions(self, actions: np.ndarray) -> np.ndarray:
        return np.stack(np.unravel_index(actions, self._combined), -1).astype(np.int32) if self._combined else actions

    def convert(self, observation: Any, ended: np.ndarray) -> dict[str, Any]:
        legal = np.concatenate([np.reshape(observation[key], (len(ended), -1)) for key in self._keys], axis=1) == 1
        possible = np.logical_or.reduceat(legal, self._starts, axis=1).all(axis=1) | ended
        if not possible.all():
            where = f"environment {possible.argmin()} of {len(possible)}"
            raise EnvironmentFailed(f"{self._name} allows no action in {where}: {MASK} has no 1")
        return {**self._rest(observation), LEGAL_ACTIONS: np.packbits(legal, axis=1, bitorder="little")}

    def _rest(self, observation: Any) -> dict[str, Any]:
        return {key: value for key, value in tensors_of(observation).items() if key not in self._keys}


def tensors_of(observation: Any) -> dict[str, Any]:
    """The tensors of an observation, or its parts of a space, by name: an only one is called `observation`."""
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}
