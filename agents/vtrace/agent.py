"""The V-trace agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent, LossOutput
from seed_rl.agents.config import CannotAct
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.agents.vtrace.networks import ActorCritic, NetworkState
from seed_rl.networks.torsos import ShallowTorso
from seed_rl.rl import categorical
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll


class VTraceAgent(Agent):
    """Samples from its policy; learns off-policy by V-trace from unrolls that its (slightly older) self acted in."""

    overlap = 1

    def __init__(self, config: VTrace, env_spec: EnvSpec, seed: int):
        observation, action = env_spec.observation, env_spec.action
        if not isinstance(observation, ArraySpec) or observation.dtype != "uint8" or len(observation.shape) != 3:
            raise CannotAct(f"V-trace's networks take uint8 images [height, width, channels], got {env_spec}")
        if not isinstance(action, DiscreteSpec):
            raise CannotAct(f"V-trace acts in discrete action spaces, got {env_spec}")
        smallest = ShallowTorso.MIN_FRAME_SIZE
        if config.torso == "shallow" and min(observation.shape[:2]) < smallest:
            raise CannotAct(f"the shallow torso needs frames of at least {smallest} x {smallest}, got {env_spec}")
        self._config = config
        self.unroll_length = config.unroll_length
        self.behaviour_spec = tf.TensorSpec([action.n], tf.float32)
        keras.utils.set_random_seed(seed)
        self._network = ActorCritic(
            action.n,
            observation.shape,
            torso=config.torso,
            hidden=config.hidden,
            lstm_units=config.lstm_units,
            previous_step_inputs=config.previous_step_inputs,
            frame_stack=config.frame_stack,
            kernel_initializer=config.kernel_initializer,
            dtype=config.dtype,
        )
        self._log_entropy_cost: Any = None
        if config.target_entropy is not None:
            # Scaled by the speed, so that a step of the optimizer changes the cost by that factor more.
            initial = math.log(config.entropy_cost) / config.entropy_cost_adjustment_speed
            self._log_entropy_cost = keras.Variable(initial, dtype="float32", name="log_entropy_cost")
        blank = EnvOutput(tf.zeros([1, 1]), tf.ones([1, 1], tf.bool), tf.zeros([1, 1, *observation.shape], tf.uint8))
        self._network(tf.zeros([1, 1], tf.int32), blank, self.initial_state(1))  # creates the weights

    @property
    def trainable_variables(self) -> Sequence[Any]:
        extra = [] if self._log_entropy_cost is None else [self._log_entropy_cost]
        return [*self._network.trainable_variables, *extra]

    @property
    def variables(self) -> Sequence[Any]:
        return self.trainable_variables

    def initial_state(self, batch_size: int) -> NetworkState:
        return self._network.initial_state(batch_size)

    def act(
        self, prev_action: tf.Tensor, env_output: EnvOutput, state: Any, env_ids: tf.Tensor, seed: tf.Tensor
    ) -> ActOutput:
        one_step = tf.nest.map_structure(lambda t: t[None], env_output)
        output, state = self._network(prev_action[None], one_step, state)
        logits = output.policy_logits[0]
        return ActOutput(categorical.sample(logits, seed), logits, state)

    def loss(self, unroll: Unroll) -> LossOutput:
        config = self._config
        output, _ = self._network(unroll.prev_action, unroll.env_output, unroll.initial_state)
        entropy_cost: Any = config.entropy_cost
        if self._log_entropy_cost is not None:
            entropy_cost = tf.exp(config.entropy_cost_adjustment_speed * self._log_entropy_cost.value)
        total, metrics = vtrace_loss(
            target_logits=output.policy_logits,
            baseline=output.baseline,
            behaviour_logits=unroll.behaviour,
            action=unroll.action,
            env_output=unroll.env_output,
            entropy_cost=tf.stop_gradient(entropy_cost),
            discount=config.discount,
            lambda_=config.lambda_,
            clip_rho=config.clip_rho,
            clip_pg_rho=config.clip_pg_rho,
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
