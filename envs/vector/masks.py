"""Action masks that environments give in `info`, as Gymnasium's own do, or by a method, as for MaskablePPO."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.spaces import tensors_of
from seed_rl.envs.vector.wrappers import MASK


def with_masks(env: gymnasium.Env, reset: Callable[[gymnasium.Env], Any]) -> gymnasium.Env:
    """Put an environment's action masks into its observations, where there are any for its choices.

    `reset` resets it and returns its `info`.
    """
    space = env.observation_space
    is_there = isinstance(space, spaces.Dict) and MASK in space.spaces
    if is_there or not isinstance(env.action_space, spaces.Discrete | spaces.MultiDiscrete):
        return env
    return env if (mask := _mask_of(env, reset(env))) is None else MaskedObservation(env, len(mask))


class MaskedObservation(gymnasium.Wrapper):
    """An environment whose observations have a part `action_mask`, from a method `action_masks()` or from `info`."""

    def __init__(self, env: gymnasium.Env, size: int):
        """A mask has `size` values."""
        super().__init__(env)
        mask = spaces.Box(0, 1, (size,), np.int8)
        self.observation_space = spaces.Dict(tensors_of(env.observation_space) | {MASK: mask})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info, False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info, terminated or truncated), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: Any, ended: bool) -> dict[str, Any]:
        if (mask := _mask_of(self.env, info)) is None:
            if not ended:
                raise ValueError(f"info must have an {MASK} in every step, as in the first reset, got none")
            mask = np.zeros(self.observation_space[MASK].shape, np.int8)  # type: ignore[index]
        return tensors_of(observation) | {MASK: mask}


def _mask_of(env: gymnasium.Env, info: Any) -> np.ndarray | None:
    """The current mask, int8 [N], from an array or one for each choice; None if the environment has none."""
    if env.has_wrapper_attr("action_masks"):  # type: ignore[attr-defined]
        mask = env.get_wrapper_attr("action_masks")()  # type: ignore[attr-defined]
    else:
        mask = info.get(MASK) if isinstance(info, Mapping) else None
    return None if mask is None else np.concatenate([np.ravel(own) == 1 for own in mask]).astype(np.int8)
