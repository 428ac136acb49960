"""The loss of the R2D2 agent, as a function of tensors.

Shapes: T learner steps, or T + 1 including the one to bootstrap from, B sequences, A actions, N quantiles.
"""

from typing import Any

import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.transitions import transitions_of
from seed_rl.rl import q_learning
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC, ValueTransform
from seed_rl.types import EnvOutput


def q_of(outputs: tf.Tensor, config: R2D2) -> tf.Tensor:
    """The Q-values [..., A] in a network's outputs: the mean of the quantiles [..., N, A] if it learns these."""
    return tf.reduce_mean(outputs, axis=-2) if config.quantiles else outputs


def td_errors(
    q_of_action: tf.Tensor, bootstrap: tf.Tensor, env_output: EnvOutput, config: R2D2, bonus: Any = 0.0
) -> tf.Tensor:
    """n-step TD errors, float32 [T, B]; gradients flow only through `q_of_action`.

    Q(x_t, a_t) is paired with the outcome and the state of step t + 1, to which action a_t leads.

    Args:
      q_of_action: float32 [T + 1, B]: Q(x_t, a_t).
      bootstrap: float32 [T + 1, B]: the value of x_t to bootstrap from.
      env_output: `reward`, `done` and `last` [T + 1, B].
      config: settings of the targets.
      bonus: float32 [T, B], added to the targets.
    """
    r_t, discount_t, last_t = transitions_of(env_output, config)
    errors = q_learning.n_step_td_errors(
        q_of_action[:-1], r_t, discount_t, bootstrap[1:], config.n_steps, _transform(config), last_t
    )
    return tf.where(last_t, 0.0, errors + bonus)


def priorities_of(errors: tf.Tensor, env_output: EnvOutput, config: R2D2) -> tf.Tensor:
    """The priorities, float32 [B], of sequences with TD errors [T, B]; `env_output` is as in `td_errors`."""
    last_t = transitions_of(env_output, config).last_t
    return q_learning.sequence_priorities(errors, last_t, config.max_priority_weight)


def r2d2_loss(
    *,
    online_q: tf.Tensor,
    target_q: tf.Tensor,
    action: tf.Tensor,
    env_output: EnvOutput,
    importance_weights: tf.Tensor,
    config: R2D2,
) -> LossOutput:
    """The loss of n-step targets, of double Q-learning or Munchausen, summed over time, weighted and averaged over
    sequences.

    With quantiles, metrics and priorities are those of their means.

    Args:
      online_q: float32 [T + 1, B, A], or [T + 1, B, N, A] if the agent learns quantiles: outputs of the online network.
      target_q: outputs of the target network, as `online_q`; no gradient flows through them.
      action: int32 [T + 1, B].
      env_output: `reward`, `done` and `last` [T + 1, B].
      importance_weights: float32 [B].
      config: settings of the targets.
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
        quantiles = q_learning.quantiles_of_actions(online_q, action)
        policy, entropy = terms.policy[:, :, tf.newaxis], terms.entropy[..., tf.newaxis]
        bootstrap = q_learning.expected_values(target_q, policy) + entropy
        losses = quantile_losses(quantiles, bootstrap, env_output, config, terms.bonus[:-1])
    total = q_learning.sequence_loss(losses, importance_weights)
    values = _transform(config).inverse(q_of_action[:-1])
    means = {"q/abs_td_error": tf.reduce_mean(tf.abs(errors)), "q/value": tf.reduce_mean(values)}
    return LossOutput(
        {"model": total},
        metrics={"loss/total": total, **means},
        maxima={"q/max_value": tf.reduce_max(values)},
        priorities=priorities_of(errors, env_output, config),
    )


def quantile_losses(
    quantiles: tf.Tensor, bootstrap: tf.Tensor, env_output: EnvOutput, config: R2D2, bonus: tf.Tensor
) -> tf.Tensor:
    """The quantile Huber losses of n-step targets, float32 [T, B], zero where no transition follows.

    Args:
      quantiles: float32 [T + 1, B, N]: quantiles of the returns of the actions taken; the only argument through which
        gradients flow.
      bootstrap: float32 [T + 1, B, N]: quantiles of the returns from x_t to bootstrap from.
      env_output: `reward`, `done` and `last` [T + 1, B].
      config: settings of the targets.
      bonus: float32 [T, B], added to the targets.
    """
    r_t, discount_t, last_t = transitions_of(env_output, config)
    transform, shape = _transform(config), tf.shape(bootstrap[1:])
    # A target is linear in its bootstrap value: each quantile has its own, as if it were another sequence.
    r_tn, discount_tn, last_tn = (tf.repeat(x, config.quantiles, axis=1) for x in (r_t, discount_t, last_t))
    v_tn = tf.reshape(transform.inverse(bootstrap[1:]), tf.shape(r_tn))
    targets = transform.apply(n_step_returns(r_tn, discount_tn, v_tn, config.n_steps, last_tn))
    targets = tf.reshape(targets, shape) + bonus[..., tf.newaxis]
    losses = q_learning.quantile_huber_losses(quantiles[:-1], targets)
    return tf.where(last_t, 0.0, losses)


def _transform(config: R2D2) -> ValueTransform:
    return SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY
