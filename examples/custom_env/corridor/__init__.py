"""The suite: its settings travel to the actors. It must not import TensorFlow, which they don't have."""

import dataclasses

import gin
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from corridor.game import CorridorEnv
from seed_rl.api import Count, EnvConfig


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Corridor(EnvConfig):
    """A corridor, from the left to the right."""

    suite = "corridor"

    length: Count = 8
    """Cells."""

    def make(self, num_envs):
        return SyncVectorEnv([lambda: CorridorEnv(self.length)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
