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
from seed_rl.settings import Count, NonNegative, OneOf

TASKS = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum"),
    *("Pusher", "Reacher", "Swimmer", "Walker2d"),
)
WITHOUT_CAMERA = ("InvertedDoublePendulum", "InvertedPendulum", "Pusher", "Reacher")
"""Tasks whose model has no camera that follows the body; it stays in view without one."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MuJoCo(EnvConfig):
    """A MuJoCo task in its fifth version: `HalfCheetah` is `HalfCheetah-v5`.

    A setting of None means the task's own default; not every task has every setting.
    """

    suite: ClassVar[str] = "mujoco"
    task_setting: ClassVar[str] = "task"

    task: Annotated[str, OneOf(*TASKS)] = "HalfCheetah"
    """The Gymnasium id without its version."""
    backend: Annotated[str, OneOf("gymnasium", "envpool")] = "gymnasium"
    """`gymnasium`, or `envpool`, which has the same tasks, steps them in native threads and can't render."""
    max_episode_steps: Count | None = None
    """Time limit in agent steps, at which episodes are truncated. Default: 1,000; Pusher 100, Reacher 50."""
    frame_skip: Count | None = None
    """Simulation steps per agent step; only with Gymnasium."""
    reset_noise_scale: NonNegative | None = None
    """Scale of the noise in the initial state; all tasks but Pusher and Reacher."""
    forward_reward_weight: NonNegative | None = None
    """Weight of the velocity in the reward; Ant, HalfCheetah, Hopper, Humanoid, Swimmer and Walker2d."""
    ctrl_cost_weight: NonNegative | None = None
    """Weight of the squared action as a cost; these six and HumanoidStandup."""
    terminate_when_unhealthy: bool | None = None
    """Whether a fall ends the episode; Ant, Hopper, Humanoid and Walker2d."""

    def __post_init__(self):
        super().__post_init__()
        if self.backend == "envpool" and self.frame_skip is not None:
            raise ValueError("MuJoCo.frame_skip must be None with MuJoCo.backend = 'envpool', where it is fixed")

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
        given = {name: value for name, value in self.describe().options.items() if name not in ("task", "backend")}
        return Gym(id=f"{self.task}-v5", envpool=self.backend == "envpool", options=json.dumps(given))

    def make(self, num_envs: int) -> VectorEnv:
        return self._gym.make(num_envs)

    def watch(self) -> Watchable:
        gym = dataclasses.replace(self, backend="gymnasium")._gym
        # Gymnasium 1.3's default camera stays behind.
        camera: Any = {} if self.task in WITHOUT_CAMERA else {"camera_name": "track"}
        return make_watchable(functools.partial(gym.make, **camera), 1, gym.id)
