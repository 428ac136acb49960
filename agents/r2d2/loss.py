"""The loss of the R2D2 agent, as a function of tensors.

Shapes: T learner steps, or T + 1 including the one to bootstrap from, B sequences, A actions.
"""

import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.transitions import transitions_of
from seed_rl.rl import q_learning
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC, ValueTransform
from seed_rl.types import EnvOutput


def td_errors(q_of_action: tf.Tensor, bootstrap: tf.Tensor, env_output: EnvOutput, config: R2D2) -> tf.Tensor:
    """n-step TD errors, float32 [T, B]; gradients flow only through `q_of_action`.

    Q(x_t, a_t) is paired with the outcome and the state of step t + 1, to which action a_t leads.

    Args:
      q_of_action: float32 [T + 1, B]: Q(x_t, a_t).
      bootstrap: float32 [T + 1, B]: the value of x_t to bootstrap from.
      env_output: `reward`, `done` and `last` [T + 1, B].
      config: settings of the targets.
    """
    r_t, discount_t, last_t = transitions_of(env_output, config)
    return q_learning.n_step_td_errors(
        q_of_action[:-1], r_t, discount_t, bootstrap[1:], config.n_steps, _transform(config), last_t
    )


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
    """The double Q-learning loss with n-step targets, summed over time, weighted and averaged over sequences.

    Args:
      online_q: float32 [T + 1, B, A]: outputs of the online network.
      target_q: float32 [T + 1, B, A]: outputs of the target network; no gradient flows through them.
      action: int32 [T + 1, B].
      env_output: `reward`, `done` and `last` [T + 1, B].
      importance_weights: float32 [B].
      config: settings of the targets.
    """
    q_of_action = q_learning.q_of_actions(online_q, action)
    errors = td_errors(q_of_action, q_learning.double_q_values(online_q, target_q), env_output, config)
    total = q_learning.sequence_loss(errors, importance_weights)
    values = _transform(config).inverse(q_of_action[:-1])
    means = {"q/abs_td_error": tf.reduce_mean(tf.abs(errors)), "q/value": tf.reduce_mean(values)}
    return LossOutput(
        {"model": total},
        metrics={"loss/total": total, **means},
        maxima={"q/max_value": tf.reduce_max(values)},
        priorities=priorities_of(errors, env_output, config),
    )


def _transform(config: R2D2) -> ValueTransform:
    return SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY
