"""The V-trace agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent, LossOutput, blank_step
from seed_rl.agents.trunk import build_trunk
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.agents.vtrace.networks import ActorCritic
from seed_rl.networks.trunk import TrunkState
from seed_rl.rl.distributions import distribution_of
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput, Unroll


class VTraceAgent(Agent):
    """Samples from its policy; learns off-policy by V-trace from unrolls that its (slightly older) self acted in."""

    overlap = 1

    def __init__(self, config: VTrace, env_spec: EnvSpec, seed: int):
        self._actions = distribution_of(env_spec.action)
        self._config = config
        self.unroll_length = config.unroll_length
        self.behaviour_spec = tf.TensorSpec([self._actions.num_parameters], tf.float32)
        keras.utils.set_random_seed(seed)
        self._network = ActorCritic(build_trunk(config, env_spec, clip_reward_input=True), self._actions.num_parameters)
        self._log_entropy_cost: Any = None
        if config.target_entropy is not None:
            # Scaled by the speed, so that a step of the optimizer changes the cost by that factor more.
            initial = math.log(config.entropy_cost) / config.entropy_cost_adjustment_speed
            self._log_entropy_cost = keras.Variable(initial, dtype="float32", name="log_entropy_cost")
        self._network(*blank_step(env_spec), self.initial_state(1))  # creates the weights

    @property
    def trainable_variables(self) -> Sequence[Any]:
        extra = [] if self._log_entropy_cost is None else [self._log_entropy_cost]
        return [*self._network.trainable_variables, *extra]

    @property
    def variables(self) -> Sequence[Any]:
        return self.trainable_variables

    @property
    def model(self) -> keras.Model:
        return self._network

    def initial_state(self, batch_size: int) -> TrunkState:
        return self._network.initial_state(batch_size)

    def act(
        self,
        prev_action: tf.Tensor,
        env_output: EnvOutput,
        state: Any,
        env_ids: tf.Tensor,
        seed: tf.Tensor,
        greedy: bool = False,
    ) -> ActOutput:
        one_step = tf.nest.map_structure(lambda t: t[None], env_output)
        output, state = self._network(prev_action[None], one_step, state)
        parameters = output.policy[0]
        action = self._actions.mode(parameters) if greedy else self._actions.sample(parameters, seed)
        return ActOutput(action, parameters, state)

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor | None = None) -> LossOutput:
        config = self._config
        output, _ = self._network(unroll.prev_action, unroll.env_output, unroll.initial_state)
        entropy_cost: Any = config.entropy_cost
        if self._log_entropy_cost is not None:
            entropy_cost = tf.exp(config.entropy_cost_adjustment_speed * self._log_entropy_cost.value)
        total, metrics = vtrace_loss(
            actions=self._actions,
            target_policy=output.policy,
            baseline=output.baseline,
            behaviour_policy=unroll.behaviour,
            action=unroll.action,
            env_output=unroll.env_output,
            entropy_cost=tf.stop_gradient(entropy_cost),
            discount=config.discount,
            lambda_=config.lambda_,
            clip_rho=config.clip_rho,
            clip_pg_rho=config.clip_pg_rho,
            reward_scale=config.reward_scale,
            max_abs_reward=config.max_abs_reward,
            baseline_cost=config.baseline_cost,
            kl_cost=config.kl_cost,
        )
        if self._log_entropy_cost is not None:
            # Descending this raises the cost while the entropy is below its target, and lowers it above.
            total += entropy_cost * tf.stop_gradient(metrics["policy/entropy"] - config.target_entropy)
            metrics["loss/total"] = total
            metrics["policy/entropy_cost"] = entropy_cost
        return LossOutput(total, metrics)
