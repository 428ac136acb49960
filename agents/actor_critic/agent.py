"""An agent that samples from a policy and learns it together with a value."""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import keras
import tensorflow as tf

from seed_rl.agents.actor_critic.config import ActorCriticConfig
from seed_rl.agents.actor_critic.networks import ActorCritic, Moments, NetworkOutput
from seed_rl.agents.actor_critic.terms import Decisions, decisions_of
from seed_rl.agents.base import ActOutput, LossOutput, ModelAgent, VariableGroup
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.trunk import Trunk
from seed_rl.rl import masks, randomness
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.exploration import Holding, hold
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput, Unroll

_LOG_ENTROPY_COSTS = (-20.0, 20.0)  # bounds outside of which the cost would soon vanish or overflow

ConfigT = TypeVar("ConfigT", bound=ActorCriticConfig)


class ActorCriticAgent(ModelAgent, Generic[ConfigT]):
    """Samples from its policy, or holds an action (`explore_after`). A subclass defines `actor_critic_loss`."""

    def __init__(self, config: ConfigT, env_spec: EnvSpec, num_training_envs: int):
        clipped = config.continuous_policy == "clipped"
        self.config = config
        self.actions = distribution_of(env_spec.action, config.initial_deviation, clipped)
        self.behaviour_spec = NetworkOutput(
            tf.TensorSpec([self.actions.num_parameters], tf.float32), tf.TensorSpec([], tf.float32)
        )
        heads = (self.actions.num_parameters, config.value_norm, clipped * self.actions.num_deviations)
        super().__init__(ActorCritic(Trunk(config, env_spec), *heads), env_spec, config.unroll_length)
        self._num_training_envs = num_training_envs
        self._holds = config.explore_after > 0 and num_training_envs > 0 and not self.actions.num_deviations
        self._log_entropy_cost: Any = None
        if config.target_entropy is not None:
            self._log_entropy_cost = keras.Variable(
                math.log(config.entropy_cost), dtype="float32", name="log_entropy_cost"
            )
            self._log_entropy_cost.constraint = lambda value: keras.ops.clip(value, *_LOG_ENTROPY_COSTS)

    @property
    def variables(self) -> Sequence[Any]:
        extra = [] if self._log_entropy_cost is None else [self._log_entropy_cost]
        return [*self.model.variables, *extra]

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        groups = {**super().groups}
        if self._log_entropy_cost is not None:
            speed = self.config.entropy_cost_adjustment_speed
            groups["entropy_cost"] = VariableGroup(
                [self._log_entropy_cost],
                lambda own: dataclasses.replace(own, learning_rate=speed * own.learning_rate),
            )
        return groups

    def initial_state(self, batch_size: int) -> Any:
        """The model's state; if training environments may hold actions, a pair of `Holding` and that state."""
        own = super().initial_state(batch_size)
        return (Holding(*tf.zeros([2, batch_size], tf.int32)), own) if self._holds else own

    def act(
        self,
        prev_action: tf.Tensor,
        env_output: EnvOutput,
        state: Any,
        env_ids: tf.Tensor,
        seed: tf.Tensor,
        greedy: bool | tf.Tensor = False,
    ) -> ActOutput:
        if not self._holds:
            return super().act(prev_action, env_output, state, env_ids, seed, greedy)
        seed, hold_seed = randomness.split(seed, 2)
        answer = super().act(prev_action, env_output, state[1], env_ids, seed, greedy)
        policy, same = answer.behaviour.policy, self.actions.features(prev_action) > 0
        allowed = tf.reduce_all(masks.is_legal(policy) | ~same, axis=-1)
        allowed &= ~env_output.done & (env_ids < self._num_training_envs)
        holds, holding = hold(state[0], env_output.reward, allowed, self.config.explore_after, hold_seed)
        action = tf.where(tf.reshape(holds, [-1] + [1] * (prev_action.shape.rank - 1)), prev_action, answer.action)
        behaviour = answer.behaviour._replace(policy=masks.masked(policy, same | ~holds[:, tf.newaxis]))
        return ActOutput(action, behaviour, (holding, answer.state))

    def decide(
        self, outputs: NetworkOutput, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool
    ) -> tuple[tf.Tensor, NetworkOutput]:
        policy = outputs.policy
        return self.actions.mode(policy) if greedy else self.actions.sample(policy, seed), outputs

    def decisions(self, unroll: Unroll) -> Decisions:
        """The decisions in time-major unrolls [L, B, ...], seen by the present weights."""
        state = unroll.initial_state[1] if self._holds else unroll.initial_state
        output, _ = self.model(unroll.prev_action, unroll.env_output, state)
        return decisions_of(self.actions, output, unroll, self.model.baseline.deviation, self.config)

    @abc.abstractmethod
    def actor_critic_loss(self, made: Decisions, targets: Any, entropy_cost: Any) -> dict[str, tf.Tensor]:
        """The loss of the network, named `loss/total`, and its metrics.

        Args:
          made: the decisions in the batch.
          targets: the result of the method `targets`.
          entropy_cost: current weight of the entropy bonus, a scalar without gradient.
        """

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        entropy_cost: Any = self.config.entropy_cost
        if self._log_entropy_cost is not None:
            entropy_cost = tf.exp(self._log_entropy_cost.value)
        made = self.decisions(unroll)
        metrics = self.actor_critic_loss(made, unroll.targets, tf.stop_gradient(entropy_cost))
        losses = {"model": metrics["loss/total"]}
        if self._log_entropy_cost is not None:
            # Gradient descent on this raises the cost while the entropy is below its target, and lowers it above.
            target = self.config.target_entropy * tf.reduce_mean(made.acted)
            excess = tf.stop_gradient(metrics["policy/entropy"] - target)
            losses["entropy_cost"] = entropy_cost * excess
            metrics["policy/entropy_cost"] = entropy_cost
        return LossOutput(losses, metrics)

    def moments(self, unroll: Unroll) -> Moments:
        """The moments of the observations, and of lambda-returns computed from the values recorded while acting."""
        r_t, discount_t, last_t = transitions_of(unroll.env_output, self.config)
        values, lambda_ = unroll.behaviour.baseline, self.config.lambda_
        returns = lambda_returns(discount_t, r_t, values[:-1], values[-1], last_t=last_t, lambda_=lambda_)
        return self.model.moments(unroll.env_output, returns, last_t)
