"""V-trace with an auxiliary loss: another head predicts the reward that follows each step."""

import dataclasses
from typing import Any, ClassVar

import gin
import keras
import tensorflow as tf

from seed_rl.agents.actor_critic.agent import ActorCritic
from seed_rl.agents.actor_critic.terms import Decisions, NetworkOutput, Terms
from seed_rl.agents.vtrace import VTrace
from seed_rl.agents.vtrace.agent import VTraceAgent
from seed_rl.api import NonNegative, Unroll


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RewardPrediction(VTrace):
    agent_class: ClassVar[str] = "reward_prediction:PredictingAgent"
    prediction_cost: NonNegative = 0.1


class PredictingNetwork(ActorCritic):
    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._reward = keras.layers.Dense(1, dtype="float32", name="reward")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> NetworkOutput:
        return super().heads(features, legal)._replace(more=self._reward(features)[..., 0])


class PredictingAgent(VTraceAgent):
    network_class = PredictingNetwork

    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        terms = super().terms(made, outputs, unroll)
        error = made.acted * tf.square(made.transitions.r_t - outputs.more[:-1])
        terms.losses["loss/reward"] = self.config.prediction_cost * tf.reduce_mean(error)
        return terms
