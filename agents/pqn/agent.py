"""The PQN agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent
from seed_rl.agents.pqn.config import PQN
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import q_learning
from seed_rl.rl.exploration import epsilon_greedy
from seed_rl.rl.vtrace import vtrace
from seed_rl.specs import CannotAct, DiscreteSpec, EnvSpec
from seed_rl.types import Unroll


class QNetwork(TrunkModel):
    """A trunk with one dense layer to the values of A actions."""

    def __init__(self, trunk: Trunk, num_actions: int, kernel_initializer: str):
        super().__init__(trunk, name="q_network")
        self._q = keras.layers.Dense(num_actions, kernel_initializer=kernel_initializer, dtype="float32", name="q")

    def heads(self, features: tf.Tensor) -> tf.Tensor:
        """Q-values float32 [T, B, A]."""
        return self._q(features)


class PQNAgent(ModelAgent):
    """Acts epsilon-greedily, with an epsilon that falls; learns Q by lambda-returns of its own greedy values."""

    def __init__(self, config: PQN, env_spec: EnvSpec, num_training_envs: int, seed: int):
        if not isinstance(env_spec.action, DiscreteSpec):
            raise CannotAct(f"PQN learns the value of each of finitely many actions: it needs Discrete, got {env_spec}")
        self._config = config
        self._num_training_envs = num_training_envs
        keras.utils.set_random_seed(seed)
        network = QNetwork(Trunk(config, env_spec), env_spec.action.n, config.kernel_initializer)
        super().__init__(network, env_spec, config.unroll_length)
        self._epsilon = keras.Variable(config.epsilon, trainable=False, dtype="float32", name="epsilon")

    @property
    def variables(self) -> Sequence[Any]:
        return [*self.model.variables, self._epsilon]

    def decide(self, outputs: tf.Tensor, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, Any]:
        if greedy:
            return tf.argmax(outputs, axis=-1, output_type=tf.int32), ()
        evaluated = env_ids >= self._num_training_envs
        return epsilon_greedy(outputs, tf.where(evaluated, self._config.final_epsilon, self._epsilon.value), seed), ()

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        """Half the mean squared error to lambda-returns, which are V-trace's targets where both policies are greedy."""
        q, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        r_t, discount_t, truncated_t = transitions_of(unroll.env_output, self._config)
        greedy = tf.reduce_max(q, axis=-1)
        targets = vtrace(
            tf.zeros_like(r_t),
            discount_t,
            r_t,
            greedy[:-1],
            greedy[-1],
            truncated_t=truncated_t,
            lambda_=self._config.lambda_,
        ).vs
        values = q_learning.q_of_actions(q, unroll.action)[:-1]
        errors = tf.where(truncated_t, 0.0, targets - values)
        loss = 0.5 * tf.reduce_mean(tf.square(errors))
        return LossOutput(
            {"model": loss},
            metrics={
                "loss/total": loss,
                "q/value": tf.reduce_mean(values),
                "q/abs_td_error": tf.reduce_mean(tf.abs(errors)),
                "q/epsilon": self._epsilon.value,
            },
            maxima={"q/max_value": tf.reduce_max(values)},
            statistics=self.model.trunk.moments(unroll.env_output),
        )

    def after_update(self, learner_updates: int) -> None:
        config = self._config
        done = min(learner_updates / config.epsilon_updates, 1.0)
        self._epsilon.assign(config.epsilon + done * (config.final_epsilon - config.epsilon))
