"""The counting agent, which ends its learner if an unroll isn't exactly a piece of one environment's run."""

from __future__ import annotations

import dataclasses
from typing import Any

import gin
import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.specs import EnvSpec
from seed_rl.types import Unroll
from tests.support.counting_agent import CountingAgent, CountingAgentConfig, relations


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckingAgentConfig(CountingAgentConfig):
    """Builds a `CheckingAgent`."""

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> CheckingAgent:
        return CheckingAgent(self, env_spec)


class CheckingAgent(CountingAgent):
    """Checks each unroll that it learns from."""

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        checks = [tf.debugging.Assert(tf.reduce_all(holds), [name]) for name, holds in relations(unroll).items()]
        with tf.control_dependencies(checks):
            return super().loss(unroll, importance_weights, seed)
