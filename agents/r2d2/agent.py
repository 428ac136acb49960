"""The R2D2 agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seed_rl.agents.base import ActOutput, LossOutput, ReplayAgent, blank_step
from seed_rl.agents.config import CannotAct
from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.r2d2.loss import TDSettings, r2d2_loss, td_errors
from seed_rl.agents.r2d2.networks import DuelingQNetwork
from seed_rl.agents.trunk import build_trunk
from seed_rl.networks.trunk import TrunkState
from seed_rl.rl import categorical, q_learning
from seed_rl.rl.exploration import epsilon_greedy, epsilon_ladder
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC
from seed_rl.specs import DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll


class Behaviour(NamedTuple):
    """What the acting network thought of a step: enough for the priority that its unroll starts with."""

    q_of_action: Any
    """float32 [...]: Q(x, a) of the action taken."""
    max_q: Any
    """float32 [...]: max over a of Q(x, a)."""


class R2D2Agent(ReplayAgent):
    """Acts epsilon-greedily; learns Q by double Q-learning from sequences, through the LSTM's stored states."""

    behaviour_spec = Behaviour(tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.float32))

    def __init__(self, config: R2D2, env_spec: EnvSpec, num_training_envs: int, seed: int):
        if not isinstance(env_spec.action, DiscreteSpec):
            raise CannotAct(
                f"R2D2 learns the value of each of finitely many actions: it needs Discrete, got {env_spec}"
            )
        num_actions = env_spec.action.n
        self._config = config
        self.unroll_length = config.unroll_length
        self.overlap = config.burn_in + 1
        ladder = epsilon_ladder(num_training_envs, config.epsilon_base, config.epsilon_low, config.epsilon_high)
        self._epsilons = np.append(
            ladder, np.float32(config.eval_epsilon)
        )  # the last for all that are not learned from
        self._td_settings = TDSettings(
            config.discount,
            config.n_steps,
            config.max_abs_reward,
            SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY,
        )
        keras.utils.set_random_seed(seed)

        def network() -> DuelingQNetwork:
            trunk = build_trunk(config, env_spec, clip_reward_input=False)
            built = DuelingQNetwork(trunk, num_actions, config.head_hidden, config.kernel_initializer, config.dtype)
            built(*blank_step(env_spec), built.initial_state(1))  # creates the weights
            return built

        self._online, self._target = network(), network()
        self._copy_to_target()

    @property
    def trainable_variables(self) -> Sequence[Any]:
        return self._online.trainable_variables

    @property
    def variables(self) -> Sequence[Any]:
        return [*self._online.variables, *self._target.variables]

    @property
    def model(self) -> keras.Model:
        return self._online

    def initial_state(self, batch_size: int) -> TrunkState:
        return self._online.initial_state(batch_size)

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
        q, state = self._online(prev_action[None], one_step, state)
        if greedy:
            action = categorical.greedy(q[0])
        else:
            epsilon = tf.gather(self._epsilons, tf.minimum(env_ids, len(self._epsilons) - 1))
            action = epsilon_greedy(q[0], epsilon, seed)
        behaviour = Behaviour(q_learning.q_of_actions(q, action[None])[0], tf.reduce_max(q[0], axis=-1))
        return ActOutput(action, behaviour, state)

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor | None = None) -> LossOutput:
        if importance_weights is None:
            raise ValueError("R2D2 learns from a replay: importance_weights must be given")
        online_q = self._unrolled_q(self._online, unroll)
        target_q = tf.stop_gradient(self._unrolled_q(self._target, unroll))
        learned = tf.nest.map_structure(self._after_burn_in, unroll._replace(initial_state=()))
        result = r2d2_loss(
            online_q=online_q,
            target_q=target_q,
            action=learned.action,
            env_output=learned.env_output,
            importance_weights=importance_weights,
            settings=self._td_settings,
        )
        metrics = {
            "loss/total": result.total,
            "q/abs_td_error": tf.reduce_mean(tf.abs(result.td_errors)),
            "q/value": tf.reduce_mean(self._td_settings.transform.inverse(result.q_of_action)),
            "q/max_value": tf.reduce_max(self._td_settings.transform.inverse(result.q_of_action)),
        }
        priorities = q_learning.sequence_priorities(result.td_errors, self._config.max_priority_weight)
        return LossOutput(result.total, metrics, priorities)

    def initial_priorities(self, unroll: Unroll) -> tf.Tensor:
        learned = tf.nest.map_structure(self._after_burn_in, unroll)
        errors = td_errors(
            learned.behaviour.q_of_action, learned.behaviour.max_q, learned.env_output, self._td_settings
        )
        return q_learning.sequence_priorities(errors, self._config.max_priority_weight)

    def after_update(self, learner_updates: int) -> None:
        """Copies the weights to the target network every `target_update_period` updates."""
        if learner_updates % self._config.target_update_period == 0:
            self._copy_to_target()

    @tf.function
    def _copy_to_target(self) -> None:
        for target, online in zip(self._target.variables, self._online.variables, strict=True):
            target.assign(online.value)

    def _after_burn_in(self, field: tf.Tensor) -> tf.Tensor:
        return field[self._config.burn_in :]

    def _unrolled_q(self, network: DuelingQNetwork, unroll: Unroll) -> tf.Tensor:
        """Q [T + 1, B, A] of the steps after the burn-in."""
        burn_in, state = self._config.burn_in, unroll.initial_state
        prev_action, env_output = unroll.prev_action, unroll.env_output
        if burn_in:
            before = tf.nest.map_structure(lambda t: t[:burn_in], env_output)
            state = network.burn_in(prev_action[:burn_in], before, state)
        q, _ = network(prev_action[burn_in:], tf.nest.map_structure(self._after_burn_in, env_output), state)
        return q
