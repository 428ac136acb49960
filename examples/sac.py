"""An agent of one's own: soft actor-critic (arXiv:1812.05905), off-policy from a uniform replay.

    PYTHONPATH=examples seed_rl train --gin_file=examples/sac.gin

It uses the parts of the contract that agents with several networks need: three groups of variables, each with a loss
and an optimizer, target networks with Polyak averaging, and a replay. Transport, batching, unrolls, replay, updates,
checkpoints, metrics, evaluation and films are the library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import gin
import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent, VariableGroup
from seed_rl.agents.config import AgentConfig, TargetConfig
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.config import TrunkConfig
from seed_rl.networks.target import TargetNetwork
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl.distributions import distribution_of
from seed_rl.settings import Within
from seed_rl.specs import CannotAct, ContinuousSpec, EnvSpec
from seed_rl.types import Unroll


@gin.configurable
@dataclasses.dataclass(frozen=True)
class SAC(TrunkConfig, TargetConfig, AgentConfig):
    """Settings; those of torso, frame stack and target network are inherited."""

    learns_from_replay: ClassVar[bool] = True

    unroll_length: int = 8
    target_update_rate: float = 0.005
    initial_temperature: Annotated[float, Within(1e-6)] = 1.0
    entropy_per_dimension: float = -1.0
    """Target entropy, nats per dimension of the action scaled to [-1, 1]."""

    def __post_init__(self):
        super().__post_init__()
        if self.core != "none":
            raise ValueError(f"SAC.core must be 'none': its critics have no recurrent state, got {self.core!r}")
        if self.observation_norm:
            raise ValueError("SAC.observation_norm must be False: its losses report no statistics")

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> SACAgent:
        """See `AgentConfig.build`."""
        return SACAgent(self, env_spec, seed)


class Actor(TrunkModel):
    """Parameters of the policy [T, B, P]."""

    def __init__(self, trunk: Trunk, num_parameters: int):
        super().__init__(trunk, name="actor")
        self._policy = keras.layers.Dense(num_parameters, dtype="float32", name="policy")

    def heads(self, features: tf.Tensor) -> tf.Tensor:
        """Of features [T, B, F]."""
        return self._policy(features)


class Critics(keras.Model):
    """Two action values, float32 [2, T, B]."""

    def __init__(self, trunks: Sequence[Trunk], units: int):
        super().__init__(name="critics", autocast=False)
        self._trunks = list(trunks)
        self._hidden = [keras.layers.Dense(units, "relu", dtype="float32", name=f"hidden_{i}") for i in range(2)]
        self._value = [keras.layers.Dense(1, dtype="float32", name=f"value_{i}") for i in range(2)]

    def build(self, *shapes: Any) -> None:
        """Nothing to do: each layer is built when `call` first reaches it."""

    def call(self, unroll: Unroll, action_features: tf.Tensor) -> tf.Tensor:
        """Values of actions [T, B, K], scaled to [-1, 1], in the states of an unroll."""
        values = []
        for trunk, hidden, value in zip(self._trunks, self._hidden, self._value, strict=True):
            features, _ = trunk(unroll.prev_action, unroll.env_output, unroll.initial_state)
            inputs = tf.concat([tf.cast(features, tf.float32), action_features], axis=-1)
            values.append(tf.squeeze(value(hidden(inputs)), -1))
        return tf.stack(values)


class SACAgent(ModelAgent):
    """Samples from its policy; learns from single transitions, T per sequence."""

    def __init__(self, config: SAC, env_spec: EnvSpec, seed: int):
        if not isinstance(env_spec.action, ContinuousSpec):
            raise CannotAct(f"SAC needs continuous actions, got {env_spec}")
        keras.utils.set_random_seed(seed)
        self._config = config
        self._actions = distribution_of(env_spec.action)
        actor = Actor(Trunk(config, env_spec), self._actions.num_parameters)
        super().__init__(actor, env_spec, config.unroll_length)

        def critics() -> Critics:
            made = Critics([Trunk(config, env_spec, name=f"trunk_{i}") for i in range(2)], config.hidden or 256)
            made(_blank_unroll(self), tf.zeros([1, 1, len(env_spec.action.low)]))  # creates the weights
            return made

        self._critics = critics()
        self._target = TargetNetwork(self._critics, critics(), config.target_update_period, config.target_update_rate)
        self._log_temperature = keras.Variable(tf.math.log(config.initial_temperature), name="log_temperature")
        # Entropies are those of the unscaled action.
        half = [(high - low) / 2 for low, high in zip(env_spec.action.low, env_spec.action.high, strict=True)]
        self._target_entropy = sum(config.entropy_per_dimension + float(tf.math.log(h)) for h in half)

    @property
    def variables(self) -> Sequence[Any]:
        """Actor, critics, target critics, temperature."""
        models = (self.model, self._critics, self._target.model)
        return [*(variable for model in models for variable in model.variables), self._log_temperature]

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        """A loss and an optimizer each; here with equal settings."""
        return {
            "critics": VariableGroup(self._critics.trainable_variables),
            "actor": VariableGroup(self.model.trainable_variables),
            "temperature": VariableGroup([self._log_temperature]),
        }

    def decide(self, outputs: tf.Tensor, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, Any]:
        """Nothing is stored but the action."""
        return self._actions.mode(outputs) if greedy else self._actions.sample(outputs, seed), ()

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        """Of T + 1 steps: action t leads to the reward and the state of step t + 1."""
        config, actions = self._config, self._actions
        policy, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        fresh = actions.sample(policy, seed)
        log_prob = actions.log_prob(policy, fresh)
        temperature = tf.exp(self._log_temperature.value)
        fixed_temperature = tf.stop_gradient(temperature)

        soft_value = (
            tf.reduce_min(self._target.model(unroll, actions.features(fresh)), 0) - fixed_temperature * log_prob
        )
        r_t, discount_t, truncated_t = transitions_of(unroll.env_output, config)
        target = tf.stop_gradient(r_t + discount_t * soft_value[1:])
        values = self._critics(unroll, actions.features(unroll.action))[:, :-1]
        errors = tf.where(truncated_t, 0.0, values - target)
        critic_loss = 0.5 * tf.reduce_mean(tf.reduce_sum(tf.square(errors), 0) * importance_weights)

        fresh_value = tf.reduce_min(self._critics(unroll, actions.features(fresh)), 0)
        actor_loss = tf.reduce_mean(fixed_temperature * log_prob - fresh_value)
        entropy = -tf.reduce_mean(log_prob)
        temperature_loss = temperature * tf.stop_gradient(entropy - self._target_entropy)
        return LossOutput(
            {"critics": critic_loss, "actor": actor_loss, "temperature": temperature_loss},
            metrics={
                "loss/total": critic_loss + actor_loss,
                "loss/critics": critic_loss,
                "loss/actor": actor_loss,
                "policy/entropy": entropy,
                "policy/temperature": temperature,
                "q/value": tf.reduce_mean(values),
            },
            maxima={"q/abs_td_error": tf.reduce_max(tf.abs(errors))},
        )

    def after_update(self, learner_updates: int) -> None:
        """Polyak averaging of the target critics."""
        self._target.after_update(learner_updates)


def _blank_unroll(agent: SACAgent) -> Unroll:
    """Zeros, T = B = 1."""
    spec = agent.step_spec._replace(initial_state=())
    steps = tf.nest.map_structure(lambda s: tf.zeros([1, 1, *s.shape], s.dtype), spec)
    return steps._replace(initial_state=agent.initial_state(1))
