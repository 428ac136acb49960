"""Ways of starting the next episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv


class SameStep(gymnasium.vector.VectorWrapper):
    """Presents an environment that resets in the step after the last of an episode as one that resets in the same.

    Such an environment shows the last observation of an episode together with its end, and in the next step, whose
    action it ignores, the first of the new episode with no reward. Here the end is told with that step: the last
    observation becomes one more step of the old episode, worth nothing.
    """

    def __init__(self, env: VectorEnv):
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._terminated = np.zeros(env.num_envs, bool)
        self._truncated = np.zeros(env.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every episode anew."""
        self._terminated[:] = self._truncated[:] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps; ends are told one step later."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = self._terminated, self._truncated
        self._terminated, self._truncated = np.array(terminated, bool), np.array(truncated, bool)
        return observation, reward, *ended, info
