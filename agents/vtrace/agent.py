"""The V-trace agent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent, VariableGroup, create_weights
from seed_rl.agents.transitions import transitions_of
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.agents.vtrace.networks import ActorCritic, Moments, NetworkOutput
from seed_rl.networks.target import TargetNetwork
from seed_rl.networks.trunk import Trunk
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.vtrace import vtrace
from seed_rl.specs import ContinuousSpec, EnvSpec
from seed_rl.types import Unroll

_LOG_ENTROPY_COSTS = (-20.0, 20.0)  # bounds outside of which the cost would soon vanish or overflow


class VTraceAgent(ModelAgent):
    """Samples from its policy; learns with V-trace from unrolls of a slightly older policy."""

    def __init__(self, config: VTrace, env_spec: EnvSpec, seed: int):
        clipped = config.continuous_policy == "clipped"
        self._actions = distribution_of(env_spec.action, config.initial_deviation, clipped)
        self._config = config
        self.behaviour_spec = NetworkOutput(
            tf.TensorSpec([self._actions.num_parameters], tf.float32), tf.TensorSpec([], tf.float32)
        )
        keras.utils.set_random_seed(seed)

        def network() -> ActorCritic:
            trunk = Trunk(config, env_spec)
            return ActorCritic(
                trunk,
                self._actions.num_parameters,
                config.value_norm,
                clipped and isinstance(env_spec.action, ContinuousSpec),
            )

        super().__init__(network(), env_spec, config.unroll_length)
        self._target: TargetNetwork | None = None
        if config.target_network:
            frozen = create_weights(network(), env_spec)
            self._target = TargetNetwork(self.model, frozen, config.target_update_period, config.target_update_rate)
        self._log_entropy_cost: Any = None
        if config.target_entropy is not None:
            self._log_entropy_cost = keras.Variable(
                math.log(config.entropy_cost), dtype="float32", name="log_entropy_cost"
            )
            self._log_entropy_cost.constraint = lambda value: keras.ops.clip(value, *_LOG_ENTROPY_COSTS)

    @property
    def variables(self) -> Sequence[Any]:
        target = [] if self._target is None else self._target.model.variables
        extra = [] if self._log_entropy_cost is None else [self._log_entropy_cost]
        return [*self.model.variables, *target, *extra]

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        groups = dict(super().groups)
        if self._log_entropy_cost is not None:
            speed = self._config.entropy_cost_adjustment_speed
            groups["entropy_cost"] = VariableGroup(
                [self._log_entropy_cost],
                lambda own: dataclasses.replace(own, learning_rate=speed * own.learning_rate),
            )
        return groups

    def decide(
        self, outputs: NetworkOutput, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool
    ) -> tuple[tf.Tensor, NetworkOutput]:
        policy = outputs.policy
        return self._actions.mode(policy) if greedy else self._actions.sample(policy, seed), outputs

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        config = self._config
        output, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        frozen: NetworkOutput | None = None
        if self._target is not None:
            frozen, _ = self._target.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        entropy_cost: Any = config.entropy_cost
        if self._log_entropy_cost is not None:
            entropy_cost = tf.exp(self._log_entropy_cost.value)
        total, metrics, _ = vtrace_loss(
            actions=self._actions,
            target_policy=output.policy,
            baseline=output.baseline,
            behaviour_policy=unroll.behaviour.policy,
            action=unroll.action,
            env_output=unroll.env_output,
            entropy_cost=tf.stop_gradient(entropy_cost),
            value_unit=self.model.baseline.deviation,
            frozen=frozen,
            config=config,
        )
        losses = {"model": total}
        if self._log_entropy_cost is not None:
            # Gradient descent on this raises the cost while the entropy is below its target, and lowers it above.
            losses["entropy_cost"] = entropy_cost * tf.stop_gradient(metrics["policy/entropy"] - config.target_entropy)
            metrics["policy/entropy_cost"] = entropy_cost
        return LossOutput(losses, metrics)

    def moments(self, unroll: Unroll) -> Moments:
        """The moments of the observations, and of lambda-returns computed from the values recorded while acting."""
        r_t, discount_t, last_t = transitions_of(unroll.env_output, self._config)
        values = unroll.behaviour.baseline
        returns = vtrace(
            tf.zeros_like(r_t),
            discount_t,
            r_t,
            values[:-1],
            values[-1],
            last_t=last_t,
            lambda_=self._config.lambda_,
        )
        return self.model.moments(unroll.env_output, returns.vs)

    def after_update(self, learner_updates: int) -> None:
        if self._target is not None:
            if self._config.target_update_rate < 1.0:
                self._target.model.baseline.take_unit_of(self.model.baseline)
            self._target.after_update(learner_updates)

    def learned_enough(self, metrics: Mapping[str, tf.Tensor]) -> tf.Tensor | bool:
        limit = self._config.kl_stop
        return metrics["policy/kl_behaviour_target"] > limit if limit else False
