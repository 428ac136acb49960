"""The counting agent, which ends its learner if an unroll isn't exactly a piece of one environment's run."""

from __future__ import annotations

import dataclasses
from typing import Any

import gin
import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.specs import EnvSpec
from seed_rl.types import Unroll
from tests.support.counting_agent import CountingAgent, CountingAgentConfig, action_of


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckingAgentConfig(CountingAgentConfig):
    """Builds a `CheckingAgent`."""

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> CheckingAgent:
        return CheckingAgent(self, env_spec)


class CheckingAgent(CountingAgent):
    """Checks each unroll that it learns from, as `tests/integration/counting_test.py` does."""

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        counters = unroll.env_output.observation  # [L, B, 4]: seed, episode, step, steps since the reset
        begins = counters[..., 2] == 0
        relations = {
            "steps are consecutive": counters[1:, :, 3] - counters[:-1, :, 3] == 1,
            "all are of one environment's run": counters[..., 0] == counters[0, :, 0],
            "ends come from the environment": unroll.env_output.done == begins,
            "actions follow from the observations": unroll.action == action_of(counters),
            "rewards follow their actions": unroll.env_output.reward[1:] == tf.cast(unroll.action[:-1], tf.float32),
            "previous actions are those before": unroll.prev_action[1:] == unroll.action[:-1],
            "the state has counted the steps": unroll.behaviour == counters[..., 2] + 1,
        }
        checks = [tf.debugging.Assert(tf.reduce_all(holds), [name]) for name, holds in relations.items()]
        with tf.control_dependencies(checks):
            return super().loss(unroll, importance_weights, seed)
