"""An agent that samples from a policy and learns it together with a value.

Its loss is a sum of terms. A subclass of an agent adds one by a line in `terms`, and what this needs of the network by
a `network_class` with another head.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import keras
import tensorflow as tf

from seed_rl.agents.actor_critic.config import ActorCriticConfig
from seed_rl.agents.actor_critic.terms import Decisions, NetworkOutput, Terms, add_up, decisions_of
from seed_rl.agents.base import ActOutput, LossOutput, ModelAgent, VariableGroup
from seed_rl.agents.transitions import transitions_of
from seed_rl.networks.normalisation import ValueHead
from seed_rl.networks.torsos import dense, through
from seed_rl.networks.trunk import BuiltInUse, Observed, Trunk, TrunkModel, TrunkState
from seed_rl.rl import masks, randomness
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.exploration import Holding, hold
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput, Unroll

ConfigT = TypeVar("ConfigT", bound=ActorCriticConfig)


class Critic(BuiltInUse):
    """Joins the policy's features with observations that only the critic reads, for the value's head."""

    def __init__(self, config: ActorCriticConfig, env_spec: EnvSpec):
        super().__init__(name="critic", autocast=False)
        self.keys = config.critic_keys
        own = {name: spec for name, spec in env_spec.observation_tensors() if name in self.keys}
        plain: dict[str, Any] = {"torso": "auto", "fusion": "concat", "core": "none", "previous_step_inputs": False}
        spec = dataclasses.replace(env_spec, observation=own)
        self.trunk = Trunk(dataclasses.replace(config, **plain), spec, name="critic_trunk")
        self._layers_after = dense(config, config.hidden or 256, "critic_hidden", is_last=True)

    def call(self, features: tf.Tensor, prev_action: tf.Tensor, env_output: EnvOutput) -> tf.Tensor:
        """Map the policy's features [T, B, F] to features for the value, given steps with all observations."""
        joined = tf.concat([features, self.trunk(prev_action, env_output, TrunkState((), ()))[0]], axis=-1)
        return through(self._layers_after, joined)


class ActorCritic(TrunkModel):
    """A trunk with a head for the P parameters of the action distribution and one for the value.

    The last `num_free` parameters, the deviations, are independent of the state.
    """

    critic: Critic | None = None
    """What joins the value with observations that the policy doesn't read; None if there are none."""

    def __init__(self, trunk: Trunk, num_parameters: int, value_norm: bool, num_free: int):
        super().__init__(trunk, name="actor_critic")
        # Nearly uniform at first: no preference before any experience.
        uniform = keras.initializers.VarianceScaling(1e-4)
        self._free: Any = None
        if num_free:
            self._free = self.add_weight(shape=[num_free], initializer="zeros", name="free", dtype="float32")
        of_state = num_parameters - num_free
        self._policy = keras.layers.Dense(of_state, kernel_initializer=uniform, dtype="float32", name="policy")
        self.baseline = ValueHead(value_norm, name="baseline")

    def call(
        self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState, observed: Observed | None = None
    ) -> tuple[NetworkOutput, TrunkState]:
        """Run T steps of B environments; without the observations of a critic, values are zero."""
        outputs, state = super().call(prev_action, env_output, state, observed)
        if self.critic is None:
            return outputs, state
        if all(name in env_output.observation for name in self.critic.keys):
            values = self.baseline(self.critic(outputs.baseline, prev_action, env_output))
        else:  # somebody else's environment, in which nothing is learned
            values = tf.zeros_like(env_output.reward)
        return outputs._replace(baseline=values), state

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> NetworkOutput:
        """The policy and the value at each step; in place of the value, what a `critic` needs for it."""
        policy = masks.mask_illegal(self._policy(features), legal)
        if self._free is not None:
            free = tf.broadcast_to(self._free.value, tf.concat([tf.shape(policy)[:-1], self._free.shape], 0))
            policy = tf.concat([policy, free], axis=-1)
        return NetworkOutput(policy, self.baseline(features) if self.critic is None else features)

    def moments(self, env_output: EnvOutput, value_targets: tf.Tensor, last_t: tf.Tensor) -> tuple[Any, Any]:
        """The moments for `update_statistics`: of steps [T + 1, B, ...], and of targets [T, B] except at `last_t`."""
        observations = {name: own for trunk in self._trunks for name, own in trunk.moments(env_output).items()}
        return observations, self.baseline.moments(value_targets, last_t)

    def update_statistics(self, moments: tuple[Any, Any], steps: float) -> None:
        observations, value_targets = moments
        for trunk in self._trunks:
            trunk.update(observations, steps)
        self.baseline.update(value_targets, steps)

    @property
    def _trunks(self) -> list[Trunk]:
        return [self.trunk] if self.critic is None else [self.trunk, self.critic.trunk]


class Behaviour(NamedTuple):
    """What is stored of a decision."""

    policy: Any
    """float32 [..., P]: the parameters of the distribution from which the action was drawn."""
    baseline: Any
    """float32 [...]: the value estimate."""


class ActorCriticAgent(ModelAgent, Generic[ConfigT]):
    """Samples from its policy, or holds an action (`explore_after`). A subclass defines `terms`."""

    network_class: ClassVar[type[ActorCritic]] = ActorCritic
    """The network's class, which is called with the arguments of `ActorCritic`."""

    def __init__(self, config: ConfigT, env_spec: EnvSpec, num_training_envs: int):
        clipped = config.continuous_policy == "clipped"
        self.config = config
        self.actions = distribution_of(env_spec.action, config.initial_deviation, clipped)
        policy, baseline = tf.TensorSpec([self.actions.num_parameters], tf.float32), tf.TensorSpec([], tf.float32)
        self.behaviour_spec = Behaviour(policy, baseline)
        heads = (self.actions.num_parameters, config.value_norm, clipped * self.actions.num_deviations)
        network = self.network_class(Trunk(config, config.policy_spec(env_spec)), *heads)
        network.critic = Critic(config, env_spec) if config.critic_keys else None
        super().__init__(network, env_spec, config.unroll_length)
        self._num_training_envs = num_training_envs
        self._holds = config.explore_after > 0 and num_training_envs > 0 and not self.actions.num_deviations
        self._log_entropy_cost: Any = None
        if config.target_entropy is not None:
            log_cost = math.log(config.entropy_cost)
            self._log_entropy_cost = keras.Variable(log_cost, dtype="float32", name="log_entropy_cost")
            # Beyond these bounds the cost would soon vanish or overflow.
            self._log_entropy_cost.constraint = lambda value: keras.ops.clip(value, -20.0, 20.0)

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
                [self._log_entropy_cost], lambda own: dataclasses.replace(own, learning_rate=speed * own.learning_rate)
            )
        return groups

    def initial_state(self, batch_size: int) -> Any:
        """The model's state; if training environments may hold actions, a pair of `Holding` and that state."""
        own = super().initial_state(batch_size)
        return (Holding(*tf.zeros([2, batch_size], tf.int32)), own) if self._holds else own

    def stored_state(self, state: Any) -> Any:
        return (state[0], super().stored_state(state[1])) if self._holds else super().stored_state(state)

    def restored_state(self, stored: Any, observations: Any) -> Any:
        if not self._holds:
            return super().restored_state(stored, observations)
        return stored[0], super().restored_state(stored[1], observations)

    def act(
        self, prev_action: Any, env_output: EnvOutput, state: Any, env_ids: Any, seed: Any, greedy: Any = False
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
        behaviour = answer.behaviour._replace(policy=masks.mask_illegal(policy, same | ~holds[:, tf.newaxis]))
        return ActOutput(action, behaviour, (holding, answer.state))

    def decide(self, outputs: NetworkOutput, env_ids: Any, seed: Any, greedy: bool) -> tuple[tf.Tensor, Behaviour]:
        policy, baseline = outputs.policy, outputs.baseline
        return self.actions.mode(policy) if greedy else self.actions.sample(policy, seed), Behaviour(policy, baseline)

    def review(self, unroll: Unroll) -> tuple[NetworkOutput, Decisions]:
        """The outputs of the present weights in time-major unrolls [L, B, ...], and the decisions seen by them."""
        state = unroll.initial_state[1] if self._holds else unroll.initial_state
        outputs, _ = self.model(unroll.prev_action, unroll.env_output, state)
        return outputs, decisions_of(self.actions, outputs, unroll, self.model.baseline.deviation, self.config)

    @abc.abstractmethod
    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        """The terms of the network's loss, all but the entropy bonus.

        Of the batch they get the decisions, the network's outputs [L, B, ...], those of its own heads in `more`, and
        the experience [L, B, ...], with the result of the method `targets`.
        """

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        entropy_cost: Any = self.config.entropy_cost
        if self._log_entropy_cost is not None:
            entropy_cost = tf.exp(self._log_entropy_cost.value)
        outputs, made = self.review(unroll)
        metrics = add_up(self.terms(made, outputs, unroll), made, tf.stop_gradient(entropy_cost), self.config)
        losses = {"model": metrics["loss/total"]}
        if self._log_entropy_cost is not None:
            # Gradient descent on this raises the cost while the entropy is below its target, and lowers it above.
            target = self.config.target_entropy * tf.reduce_mean(made.acted)
            excess = tf.stop_gradient(metrics["policy/entropy"] - target)
            losses["entropy_cost"] = entropy_cost * excess
            metrics["policy/entropy_cost"] = entropy_cost
        return LossOutput(losses, metrics)

    def moments(self, unroll: Unroll) -> tuple[Any, Any]:
        """The moments of the observations, and of lambda-returns computed from the values recorded while acting."""
        r_t, discount_t, last_t = transitions_of(unroll.env_output, self.config)
        values, lambda_ = unroll.behaviour.baseline, self.config.lambda_
        returns = lambda_returns(discount_t, r_t, values[:-1], values[-1], last_t=last_t, lambda_=lambda_)
        return self.model.moments(unroll.env_output, returns, last_t)
