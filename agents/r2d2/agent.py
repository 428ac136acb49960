"""The R2D2 agent: its Q-network, and its loss, from tensors.

Shapes: T learner steps, or T + 1 including the one to bootstrap from, B sequences, A actions, N quantiles. Of
`env_output`, [T + 1, B], losses use `reward`, `done` and `last`; `config` has the settings of their targets.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seed_rl.agents.base import LossOutput, ModelAgent, create_weights
from seed_rl.agents.epsilon import FallingEpsilon
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.transitions import Transitions, transitions_of
from seed_rl.networks.target import TargetNetwork
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import masks, q_learning
from seed_rl.rl.exploration import epsilon_greedy, epsilon_ladder
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC, ValueTransform
from seed_rl.specs import DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll


class DuelingQNetwork(TrunkModel):
    """A trunk with dueling heads (arXiv:1511.06581): Q(x, a) = V(x) + A(x, a) - mean over legal b of A(x, b).

    Each head has a hidden layer; the advantages need no bias, which would cancel out. With N quantiles of the returns,
    the same holds for each of them.
    """

    def __init__(self, config: R2D2, trunk: Trunk, num_actions: int):
        super().__init__(trunk, name="q_network")
        self._quantiles, self._num_actions = config.quantiles, num_actions
        count = max(1, config.quantiles)
        same: dict[str, Any] = {"kernel_initializer": config.kernel_initializer, "dtype": config.dtype}
        hidden = functools.partial(keras.layers.Dense, config.head_hidden, activation="relu", **same)
        # Nearly zero at first: targets bootstrap from these values, and random initial values would take many updates
        # of the target network to fade.
        small = keras.initializers.VarianceScaling(1e-4)
        self._value_hidden = hidden(name="value_hidden")
        self._value = keras.layers.Dense(count, kernel_initializer=small, dtype="float32", name="value")
        self._advantage_hidden = hidden(name="advantage_hidden")
        self._advantage = keras.layers.Dense(
            count * num_actions, use_bias=False, kernel_initializer=small, dtype="float32", name="advantage"
        )

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        """The Q-values, float32 [T, B, A], or N quantiles of the returns, float32 [T, B, N, A]; rescaled if the agent
        rescales values."""
        value = self._value(self._value_hidden(features))
        advantage = self._advantage(self._advantage_hidden(features))
        if self._quantiles:
            value = value[..., tf.newaxis]
            advantage = tf.reshape(advantage, [*value.shape[:-1], self._num_actions])
            legal = None if legal is None else legal[..., tf.newaxis, :]
        return masks.mask_illegal(value + advantage - masks.legal_mean(advantage, legal), legal)


class Behaviour(NamedTuple):
    """Values recorded while acting, which determine the initial priority of a sequence."""

    q_of_action: Any
    """float32 [...]: Q(x, a) of the action taken, without Munchausen's bonus."""
    max_q: Any
    """float32 [...]: max over a of Q(x, a), or Munchausen's soft value."""


class R2D2Agent(ModelAgent):
    """Acts epsilon-greedily; learns by double Q-learning from sequences that start from stored recurrent states."""

    behaviour_spec = Behaviour(tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.float32))

    def __init__(self, config: R2D2, env_spec: EnvSpec, num_training_envs: int):
        assert isinstance(env_spec.action, DiscreteSpec)
        num_actions = env_spec.action.n
        self._config = config
        ladder = epsilon_ladder(num_training_envs, config.epsilon_base, config.epsilon_low, config.epsilon_high)
        self._epsilons = np.append(ladder, np.float32(config.eval_epsilon))  # the last one is for all other ids
        updates = config.epsilon_updates
        self._least_epsilon = FallingEpsilon(1.0, 0.0, updates) if updates else None

        def network() -> DuelingQNetwork:
            return DuelingQNetwork(config, Trunk(config, env_spec), num_actions)

        super().__init__(network(), env_spec, config.unroll_length, overlap=config.burn_in + 1)
        frozen = create_weights(network(), env_spec)
        self._target = TargetNetwork(self.model, frozen, config.target_update_period, config.target_update_rate)
        self.copies = frozen.variables

    @property
    def variables(self) -> Sequence[Any]:
        own = [self._least_epsilon.variable] if self._least_epsilon else []
        return [*self.model.variables, *self._target.model.variables, *own]

    def decide(self, outputs: Any, env_ids: Any, seed: Any, greedy: bool) -> tuple[tf.Tensor, Behaviour]:
        q = q_of(outputs, self._config)
        if greedy:
            action = tf.argmax(q, axis=-1, output_type=tf.int32)
        else:
            num_training_envs = len(self._epsilons) - 1
            epsilon = tf.gather(self._epsilons, tf.minimum(env_ids, num_training_envs))
            if self._least_epsilon:
                least = tf.where(env_ids < num_training_envs, self._least_epsilon.variable.value, 0.0)
                epsilon = tf.maximum(epsilon, least)
            action = epsilon_greedy(q, epsilon, seed, self.env_spec.has_mask)
        q_of_action, value = q_learning.q_of_actions(q[None], action[None])[0], tf.reduce_max(q, axis=-1)
        if alpha := self._config.munchausen:
            terms = q_learning.munchausen_terms(q[None], action[None], alpha, self._config.temperature)
            q_of_action -= terms.bonus[0]
            value = (q_learning.expected_values(q[None], terms.policy) + terms.entropy)[0]
        return action, Behaviour(q_of_action, value)

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        learned = self._after_burn_in(unroll._replace(initial_state=()))
        if self._config.core == "none":
            online_q, target_q = self._unroll_qs(unroll)
        else:
            online_q, target_q = (self._recurrent_q(network, unroll) for network in (self.model, self._target.model))
        return r2d2_loss(online_q, target_q, learned.action, learned.env_output, importance_weights, self._config)

    def moments(self, unroll: Unroll) -> Any:
        return self.model.trunk.moments(self._after_burn_in(unroll.env_output))

    def initial_priorities(self, unroll: Unroll) -> tf.Tensor:
        learned = self._after_burn_in(unroll)
        acted = learned.behaviour
        errors = td_errors(acted.q_of_action, acted.max_q, learned.env_output, self._config)
        return q_learning.sequence_priorities(errors, learned.env_output.last[:-1], self._config.max_priority_weight)

    def after_update(self, learner_updates: int) -> None:
        if learner_updates:
            self._target.after_update(learner_updates)
        else:
            self._target.copy()
        if self._least_epsilon:
            self._least_epsilon.after_update(learner_updates)

    def _after_burn_in(self, steps: Any) -> Any:
        return tf.nest.map_structure(lambda field: field[self._config.burn_in :], steps)

    def _recurrent_q(self, network: DuelingQNetwork, unroll: Unroll) -> tf.Tensor:
        """A network's Q-values [T + 1, B, A], or quantiles [T + 1, B, N, A], after a burn-in without gradient."""
        steps, state = (unroll.prev_action, unroll.env_output), unroll.initial_state
        if burn_in := self._config.burn_in:
            _, state = network.trunk(*tf.nest.map_structure(lambda field: field[:burn_in], steps), state)
            state = tf.nest.map_structure(tf.stop_gradient, state)
        q, _ = network(*self._after_burn_in(steps), state)
        return q

    def _unroll_qs(self, unroll: Unroll) -> tuple[tf.Tensor, tf.Tensor]:
        """The online and target networks' Q-values without a recurrent core; zeros where no target needs them.

        No gradient flows through the last step. The target network's values are needed from n steps after the first
        one, or from the step after the first one if an episode in the batch is truncated before that.
        """
        state, steps = unroll.initial_state, (unroll.prev_action, unroll.env_output)
        observed, _ = self.model.trunk.observe(unroll.env_output, state)

        def q(network: DuelingQNetwork, begin: int, end: int | None = None) -> tf.Tensor:
            own, seen = tf.nest.map_structure(lambda field: field[begin:end], (steps, observed))
            return network(*own, state, seen)[0]

        def target(begin: int) -> tf.Tensor:
            values = q(self._target.model, begin)
            return tf.pad(values, [[begin, 0], *[[0, 0]] * (values.shape.rank - 1)])

        burn_in, last = self._config.burn_in, self.length - 1
        online_q = tf.concat([q(self.model, burn_in, last), tf.stop_gradient(q(self.model, last))], axis=0)
        first = burn_in if self._config.munchausen else min(burn_in + self._config.n_steps, last)
        is_cut = tf.reduce_any(unroll.env_output.last[burn_in + 1 : first])
        return online_q, tf.cond(is_cut, lambda: target(burn_in + 1), lambda: target(first))[burn_in:]


def q_of(outputs: tf.Tensor, config: R2D2) -> tf.Tensor:
    """The Q-values [..., A] in a network's outputs: the mean of the quantiles [..., N, A] if it learns these."""
    return tf.reduce_mean(outputs, axis=-2) if config.quantiles else outputs


def td_errors(q_of_action: Any, bootstrap: Any, env_output: EnvOutput, config: R2D2, bonus: Any = 0.0) -> tf.Tensor:
    """n-step TD errors, float32 [T, B]; gradients flow only through `q_of_action`.

    Q(x_t, a_t) is paired with the outcome and the state of step t + 1, to which action a_t leads.

    Args:
      q_of_action: float32 [T + 1, B]: Q(x_t, a_t).
      bootstrap: float32 [T + 1, B]: the value of x_t to bootstrap from.
      bonus: float32 [T, B], added to the targets.
    """
    transitions = transitions_of(env_output, config)
    errors = tf.stop_gradient(_targets(transitions, bootstrap[1:], config)) - q_of_action[:-1]
    return tf.where(transitions.last_t, 0.0, errors + bonus)


def r2d2_loss(
    online_q: Any, target_q: Any, action: Any, env_output: EnvOutput, importance_weights: Any, config: R2D2
) -> LossOutput:
    """The loss of double Q-learning's or Munchausen's n-step targets, a weighted mean over sequences of sums over time.

    With quantiles, metrics and priorities are those of their means.

    Args:
      online_q: float32 [T + 1, B, A], or [T + 1, B, N, A] if the agent learns quantiles: outputs of the online network.
      target_q: outputs of the target network, as `online_q`; no gradient flows through them.
      action: int32 [T + 1, B].
      importance_weights: float32 [B].
    """
    q, q_of_target = q_of(online_q, config), q_of(target_q, config)
    q_of_action = q_learning.q_of_actions(q, action)
    if config.munchausen:
        terms = q_learning.munchausen_terms(q_of_target, action, config.munchausen, config.temperature)
    else:
        terms = q_learning.double_q_terms(q)
    bootstrap = q_learning.expected_values(q_of_target, terms.policy) + terms.entropy
    errors = td_errors(q_of_action, bootstrap, env_output, config, terms.bonus[:-1])
    losses = 0.5 * tf.square(errors)
    if config.quantiles:
        taken = tf.one_hot(action, tf.shape(q)[-1])
        quantiles = q_learning.expected_values(online_q, taken[:, :, tf.newaxis])
        bootstrap = q_learning.expected_values(target_q, terms.policy[:, :, tf.newaxis])
        bootstrap += terms.entropy[..., tf.newaxis]
        losses = quantile_losses(quantiles, bootstrap, env_output, config, terms.bonus[:-1])
    total = tf.reduce_mean(tf.stop_gradient(importance_weights) * tf.reduce_sum(losses, axis=0))
    values = _transform(config).inverse(q_of_action[:-1])
    means = {"q/abs_td_error": tf.reduce_mean(tf.abs(errors)), "q/value": tf.reduce_mean(values)}
    return LossOutput(
        {"model": total},
        metrics={"loss/total": total, **means},
        maxima={"q/max_value": tf.reduce_max(values)},
        priorities=q_learning.sequence_priorities(errors, env_output.last[:-1], config.max_priority_weight),
    )


def quantile_losses(quantiles: Any, bootstrap: Any, env_output: EnvOutput, config: R2D2, bonus: Any) -> tf.Tensor:
    """The quantile Huber losses of n-step targets, float32 [T, B], zero where no transition follows.

    Args:
      quantiles: float32 [T + 1, B, N]: quantiles of the returns of the actions taken; the only argument through which
        gradients flow.
      bootstrap: float32 [T + 1, B, N]: quantiles of the returns from x_t to bootstrap from.
      bonus: float32 [T, B], added to the targets.
    """
    transitions = transitions_of(env_output, config)
    # A target is linear in its bootstrap value: each quantile has its own, as if it were another sequence.
    repeated = Transitions(*(tf.repeat(x, config.quantiles, axis=1) for x in transitions))
    targets = _targets(repeated, tf.reshape(bootstrap[1:], tf.shape(repeated.r_t)), config)
    targets = tf.reshape(targets, tf.shape(bootstrap[1:])) + bonus[..., tf.newaxis]
    losses = q_learning.quantile_huber_losses(quantiles[:-1], targets)
    return tf.where(transitions.last_t, 0.0, losses)


def _targets(transitions: Transitions, v_t: tf.Tensor, config: R2D2) -> tf.Tensor:
    """h(G_t(h^-1(v))), float32 [T, B], for values `v_t` of the states reached, which are outputs of a network."""
    r_t, discount_t, last_t = transitions
    transform = _transform(config)
    return transform.apply(n_step_returns(r_t, discount_t, transform.inverse(v_t), config.n_steps, last_t))


def _transform(config: R2D2) -> ValueTransform:
    return SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY
