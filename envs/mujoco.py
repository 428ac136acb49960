"""Gymnasium's MuJoCo tasks: continuous control from joint angles and velocities."""

import dataclasses
import functools
import json
from typing import Annotated, Any, ClassVar

import gin
from gymnasium.vector import VectorEnv

from seed_rl.envs.base import EnvConfig, Watchable
from seed_rl.envs.gym import Gym
from seed_rl.envs.vector.rendering import make_watchable
from seed_rl.foreign import JsonObject
from seed_rl.settings import OneOf

TASKS = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum"),
    *("Pusher", "Reacher", "Swimmer", "Walker2d"),
)
WITHOUT_CAMERA = ("InvertedDoublePendulum", "InvertedPendulum", "Pusher", "Reacher")
"""Tasks whose model has no camera that follows the body; it stays in view without one."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MuJoCo(EnvConfig):
    """A MuJoCo task in its fifth version: `HalfCheetah` is `HalfCheetah-v5`."""

    suite: ClassVar[str] = "mujoco"
    task_setting: ClassVar[str] = "task"

    task: Annotated[str, OneOf(*TASKS)] = "HalfCheetah"
    """The Gymnasium id without its version."""
    backend: Annotated[str, OneOf("gymnasium", "envpool")] = "gymnasium"
    """`gymnasium`, or `envpool`, which has the same tasks, steps them in native threads and can't render."""
    options: Annotated[str, JsonObject()] = "{}"
    """Keyword arguments of the task, a JSON object, such as `{"max_episode_steps": 500, "ctrl_cost_weight": 0.0}`."""

    @classmethod
    def tasks(cls) -> list[str]:
        return list(TASKS)

    @property
    def packages(self) -> dict[str, str]:
        return self._gym.packages or {"mujoco": "pip install 'gymnasium[mujoco]' 'mujoco<3.15'"}

    @property
    def reward_threshold(self) -> float | None:
        return self._gym.reward_threshold

    @property
    def _gym(self) -> Gym:
        return Gym(id=f"{self.task}-v5", envpool=self.backend == "envpool", options=self.options)

    def make(self, num_envs: int) -> VectorEnv:
        return self._gym.make(num_envs)

    def watch(self) -> Watchable:
        gym = dataclasses.replace(self, backend="gymnasium")._gym
        # Gymnasium 1.3's default camera stays behind.
        chosen = self.task in WITHOUT_CAMERA or {"camera_id", "camera_name"} & json.loads(self.options).keys()
        camera: Any = {} if chosen else {"camera_name": "track"}
        return make_watchable(functools.partial(gym.make, **camera), 1, gym.id)
