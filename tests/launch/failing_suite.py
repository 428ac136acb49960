"""A suite of environments that fail in their first step, in an actor: a learner only asks what they are like."""

import dataclasses

import gin

from seed_rl.envs import registry
from seed_rl.envs.catch import Catch, CatchVectorEnv


class FailingVectorEnv(CatchVectorEnv):
    def step(self, actions):
        raise OSError("the game crashed")


@registry.register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Failing(Catch):
    suite = "failing"

    def make(self, num_envs):
        return FailingVectorEnv(num_envs, self.rows, self.columns)
