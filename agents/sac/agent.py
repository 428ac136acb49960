"""The SAC agent: its networks, and its losses, from tensors (arXiv:1812.05905, sections 4.2 and 5).

Shapes: T actions to learn from, n rewards per target, hence L = T + n steps; B sequences; two critics; F features, K
action dimensions.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent, VariableGroup, blank_step
from seed_rl.agents.sac import SAC
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.target import TargetNetwork
from seed_rl.networks.torsos import dense, through
from seed_rl.networks.trunk import BuiltInUse, Trunk, TrunkModel
from seed_rl.rl.distributions import SquashedNormal
from seed_rl.rl.losses import mean
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.q_learning import sequence_priorities
from seed_rl.specs import ContinuousSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll


class Actor(TrunkModel):
    """The policy network; it outputs parameters of the action distribution, float32 [T, B, P]."""

    def __init__(self, config: SAC, trunk: Trunk, num_parameters: int):
        super().__init__(trunk, name="actor")
        self._head = _head(config, num_parameters, "policy")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        return through(self._head, features)


class Critics(BuiltInUse, keras.Model):
    """Two critics that share a trunk."""

    def __init__(self, config: SAC, trunk: Trunk):
        super().__init__(name="critics", autocast=False)
        self.trunk = trunk
        self._heads = [_head(config, 1, f"q_{index}") for index in range(2)]

    def features(self, unroll: Unroll) -> tf.Tensor:
        """The features of the states in an unroll [T, B, ...]: float32 [T, B, F]."""
        return tf.cast(self.trunk(unroll.prev_action, unroll.env_output, unroll.initial_state)[0], tf.float32)

    def call(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """The values of `actions` [T, B, K], scaled to [-1, 1], in states with these `features`: float32 [2, T, B]."""
        inputs = tf.concat([features, actions], axis=-1)
        return tf.stack([tf.squeeze(through(head, inputs), axis=-1) for head in self._heads])


def _head(config: SAC, outputs: int, name: str) -> list[Any]:
    layers: list[Any] = []
    for index in range(config.head_layers):
        layers += dense(config, config.hidden, f"{name}_hidden_{index}", is_last=False)
    return [*layers, keras.layers.Dense(outputs, dtype="float32", name=name)]


class SACAgent(ModelAgent):
    """Samples from its policy (in evaluation environments, takes the mode); learns from T transitions per sequence."""

    def __init__(self, config: SAC, env_spec: EnvSpec, num_training_envs: int):
        assert isinstance(env_spec.action, ContinuousSpec)
        low, high = env_spec.action.low, env_spec.action.high
        self._config = config
        self._num_training_envs = num_training_envs
        self._actions = SquashedNormal(low, high)
        actor = Actor(config, Trunk(config, config.policy_spec(env_spec)), self._actions.num_parameters)
        super().__init__(actor, env_spec, config.unroll_length, overlap=config.n_steps)
        self._critics, frozen = self._make_critics(), self._make_critics()
        self._target = TargetNetwork(self._critics, frozen, config.target_update_period, config.target_update_rate)
        log_temperature = math.log(config.initial_temperature)
        self._log_temperature = keras.Variable(log_temperature, dtype="float32", name="log_temperature")
        # The policy's density refers to actions on the environment's scale.
        self._target_entropy = sum(
            config.entropy_per_dimension + math.log((b - a) / 2) for a, b in zip(low, high, strict=True)
        )

    def _make_critics(self) -> Critics:
        critics = Critics(self._config, Trunk(self._config, self.env_spec))
        action, env_output = blank_step(self.env_spec)
        unroll = Unroll(self.initial_state(1), action, env_output, action, ())
        critics(critics.features(unroll), self._actions.features(action))  # creates the weights
        return critics

    @property
    def variables(self) -> Sequence[Any]:
        models = (self.model, self._critics, self._target.model)
        return [*(variable for model in models for variable in model.variables), self._log_temperature]

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        return {
            "critics": VariableGroup(self._critics.trainable_variables),
            "actor": VariableGroup(self.model.trainable_variables),
            "temperature": VariableGroup([self._log_temperature]),
        }

    def decide(self, outputs: tf.Tensor, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, Any]:
        mode = self._actions.mode(outputs)
        if greedy:
            return mode, ()
        evaluated = env_ids >= self._num_training_envs
        return tf.where(evaluated[:, None], mode, self._actions.sample(outputs, seed)), ()

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        actions, steps = self._actions, self.unroll_length
        features, _ = self.model.trunk(unroll.prev_action, unroll.env_output, unroll.initial_state)
        learned, later = self.model.heads(features[:steps]), self.model.heads(features[steps:])
        policy = tf.concat([learned, tf.stop_gradient(later)], axis=0)  # the steps after T only occur in targets
        fresh, log_prob = actions.sample_and_log_prob(policy, seed)
        fresh, taken = actions.features(fresh), actions.features(unroll.action)
        online, frozen = self._critics.features(unroll), self._target.model.features(unroll)
        return sac_loss(
            values=self._critics(online[:steps], taken[:steps]),
            fresh_values=self._critics(online[:steps], fresh[:steps]),
            target_values=self._target.model(frozen[1:], fresh[1:]),
            log_prob=log_prob,
            temperature=tf.exp(self._log_temperature.value),
            target_entropy=self._target_entropy,
            env_output=unroll.env_output,
            importance_weights=importance_weights,
            config=self._config,
        )

    def after_update(self, learner_updates: int) -> None:
        self._target.after_update(learner_updates)


def sac_loss(
    *,
    values: tf.Tensor,
    fresh_values: tf.Tensor,
    target_values: tf.Tensor,
    log_prob: tf.Tensor,
    temperature: tf.Tensor,
    target_entropy: float,
    env_output: EnvOutput,
    importance_weights: tf.Tensor,
    config: SAC,
) -> LossOutput:
    """The losses of critics, actor and temperature; each must be minimised over its own variables only.

        G_t = sum_{k < n} gamma^k (r_{t+k} - gamma alpha log pi(a' | x_{t+k+1})) + gamma^n min_i Q'_i(x_{t+n}, a')
        critics = mean(w sum_i (G_t - Q_i(x_t, a_t))^2) / 2
        actor = mean(alpha log pi(a | x_t) - min_i Q_i(x_t, a)),  where a and a' are fresh samples of the policy
        temperature = alpha (entropy - target_entropy),  0 if no step is followed by another

    Args:
      values: float32 [2, T, B]: Q_i(x_t, a_t) of the actions taken.
      fresh_values: float32 [2, T, B]: Q_i(x_t, a), differentiable in a.
      target_values: float32 [2, L - 1, B]: the target critics' Q'_i(x_t, a') for all but the first step.
      log_prob: float32 [L, B]: log probabilities of the fresh actions, differentiable.
      temperature: alpha, float32 scalar.
      target_entropy: the entropy that the temperature aims for, nats.
      env_output: `reward`, `done` and `last` [L, B].
      importance_weights: float32 [B].
      config: all other settings.
    """
    steps = config.unroll_length
    alpha = tf.stop_gradient(temperature)
    r_t, discount_t, last_t = transitions_of(env_output, config)
    r_t -= discount_t * alpha * log_prob[1:]  # entropy bonus of the state reached
    values_t = tf.reduce_min(target_values, axis=0)
    targets = n_step_returns(r_t, discount_t, values_t, config.n_steps, last_t)[:steps]
    errors = tf.where(last_t[:steps], 0.0, tf.stop_gradient(targets) - values)
    squares = tf.reduce_sum(tf.square(errors), axis=0)
    acted_t = 1.0 - tf.cast(last_t[:steps], tf.float32)
    entropy = -mean(log_prob[:steps], acted_t)
    excess = tf.where(tf.reduce_any(acted_t > 0.0), entropy - target_entropy, 0.0)  # a mean over nothing says nothing
    critics = 0.5 * tf.reduce_mean(importance_weights * squares)
    actor = tf.reduce_mean(acted_t * (alpha * log_prob[:steps] - tf.reduce_min(fresh_values, axis=0)))
    return LossOutput(
        {"critics": critics, "actor": actor, "temperature": temperature * tf.stop_gradient(excess)},
        metrics={
            "loss/total": critics + actor,
            "loss/critics": critics,
            "loss/actor": actor,
            "policy/entropy": entropy,
            "policy/temperature": temperature,
            "q/value": tf.reduce_mean(values),
            "q/abs_td_error": tf.reduce_mean(tf.abs(errors)),
        },
        priorities=sequence_priorities(tf.reduce_mean(tf.abs(errors), axis=0), last_t[:steps]),
    )
