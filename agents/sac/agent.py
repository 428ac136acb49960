"""The SAC agent."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent, VariableGroup
from seed_rl.agents.sac.config import SAC
from seed_rl.agents.sac.loss import sac_loss
from seed_rl.agents.sac.networks import Actor, Critics
from seed_rl.networks.target import TargetNetwork
from seed_rl.networks.trunk import Trunk
from seed_rl.rl.distributions import SquashedNormal
from seed_rl.specs import ContinuousSpec, EnvSpec
from seed_rl.types import Unroll


class SACAgent(ModelAgent):
    """Samples from its policy (in evaluation environments, takes the mode); learns from T transitions per sequence."""

    def __init__(self, config: SAC, env_spec: EnvSpec, num_training_envs: int):
        assert isinstance(env_spec.action, ContinuousSpec)
        low, high = env_spec.action.low, env_spec.action.high
        self._config = config
        self._num_training_envs = num_training_envs
        self._actions = SquashedNormal(low, high)
        actor = Actor(config, Trunk(config, env_spec), self._actions.num_parameters)
        super().__init__(actor, env_spec, config.unroll_length, overlap=config.n_steps)
        self._critics = self._make_critics()
        self._target = TargetNetwork(
            self._critics, self._make_critics(), config.target_update_period, config.target_update_rate
        )
        self._log_temperature = keras.Variable(
            math.log(config.initial_temperature), dtype="float32", name="log_temperature"
        )
        # The policy's density refers to actions on the environment's scale.
        self._target_entropy = sum(
            config.entropy_per_dimension + math.log((b - a) / 2) for a, b in zip(low, high, strict=True)
        )

    def _make_critics(self) -> Critics:
        critics = Critics(self._config, Trunk(self._config, self.env_spec))
        spec = self.step_spec._replace(initial_state=())
        blank = tf.nest.map_structure(lambda tensor: tf.zeros([1, 1, *tensor.shape], tensor.dtype), spec)
        unroll = blank._replace(initial_state=self.initial_state(1))
        critics(critics.features(unroll), self._actions.features(unroll.action))  # creates the weights
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
