"""The PQN agent, its network and its loss (arXiv:2407.04811).

Shapes: T actions, so T + 1 steps with the one that bootstraps, B sequences, A actions to choose from.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent
from seed_rl.agents.epsilon import FallingEpsilon
from seed_rl.agents.pqn import PQN
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import masks, q_learning
from seed_rl.rl.exploration import epsilon_greedy
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.specs import DiscreteSpec, EnvSpec
from seed_rl.types import Unroll


class QNetwork(TrunkModel):
    """A trunk with one dense layer to the values of A actions, which are nearly zero before any update."""

    def __init__(self, trunk: Trunk, num_actions: int):
        super().__init__(trunk, name="q_network")
        small = keras.initializers.VarianceScaling(1e-4)
        self._q = keras.layers.Dense(num_actions, kernel_initializer=small, dtype="float32", name="q")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        """Q-values float32 [T, B, A]."""
        return masks.mask_illegal(self._q(features), legal)


class PQNAgent(ModelAgent):
    """Acts epsilon-greedily with a decreasing epsilon; learns Q from lambda-returns of its greedy values."""

    def __init__(self, config: PQN, env_spec: EnvSpec, num_training_envs: int):
        assert isinstance(env_spec.action, DiscreteSpec)
        self._config = config
        self._num_training_envs = num_training_envs
        network = QNetwork(Trunk(config, env_spec), env_spec.action.n)
        super().__init__(network, env_spec, config.unroll_length)
        self._epsilon = FallingEpsilon(config.epsilon, config.final_epsilon, config.epsilon_updates)

    @property
    def variables(self) -> Sequence[Any]:
        return [*self.model.variables, self._epsilon.variable]

    def decide(self, outputs: tf.Tensor, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, Any]:
        if greedy:
            return tf.argmax(outputs, axis=-1, output_type=tf.int32), ()
        evaluated = env_ids >= self._num_training_envs
        epsilon = tf.where(evaluated, self._config.final_epsilon, self._epsilon.variable.value)
        return epsilon_greedy(outputs, epsilon, seed, self.env_spec.has_mask), ()

    def targets(self, unroll: Unroll) -> tf.Tensor:
        """The lambda-returns of the greedy policy, float32 [T, B], by the weights before the first pass."""
        q, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        r_t, discount_t, last_t = transitions_of(unroll.env_output, self._config)
        values, lambda_ = tf.reduce_max(q, axis=-1), self._config.lambda_
        return lambda_returns(discount_t, r_t, values[:-1], values[-1], last_t=last_t, lambda_=lambda_)

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        """Half the mean squared error to the targets, zero where no transition follows."""
        q, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        values = q_learning.q_of_actions(q, unroll.action)[:-1]
        errors = tf.where(unroll.env_output.last[:-1], 0.0, tf.stop_gradient(unroll.targets) - values)
        total = 0.5 * tf.reduce_mean(tf.square(errors))
        metrics = {
            "loss/total": total,
            "q/value": tf.reduce_mean(values),
            "q/abs_td_error": tf.reduce_mean(tf.abs(errors)),
            "q/epsilon": self._epsilon.variable.value,
        }
        return LossOutput({"model": total}, metrics, maxima={"q/max_value": tf.reduce_max(values)})

    def moments(self, unroll: Unroll) -> Any:
        return self.model.trunk.moments(unroll.env_output)

    def after_update(self, learner_updates: int) -> None:
        self._epsilon.after_update(learner_updates)
