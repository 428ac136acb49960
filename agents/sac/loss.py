"""The losses of the SAC agent, as functions of tensors (arXiv:1812.05905, sections 4.2 and 5).

Shapes: T actions to learn from, n rewards per target, hence L = T + n steps; B sequences; two critics.
"""

import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.agents.sac.config import SAC
from seed_rl.agents.transitions import transitions_of
from seed_rl.rl.losses import mean
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.q_learning import sequence_priorities
from seed_rl.types import EnvOutput


def sac_loss(
    *,
    values: tf.Tensor,
    fresh_values: tf.Tensor,
    target_values: tf.Tensor,
    log_prob: tf.Tensor,
    temperature: tf.Tensor,
    target_entropy: float,
    env_output: EnvOutput,
    importance_weights: tf.Tensor,
    config: SAC,
) -> LossOutput:
    """The losses of critics, actor and temperature; each must be minimised over its own variables only.

        G_t = sum_{k < n} gamma^k (r_{t+k} - gamma alpha log pi(a' | x_{t+k+1})) + gamma^n min_i Q'_i(x_{t+n}, a')
        critics = mean(w sum_i (G_t - Q_i(x_t, a_t))^2) / 2
        actor = mean(alpha log pi(a | x_t) - min_i Q_i(x_t, a)),  where a and a' are fresh samples of the policy
        temperature = alpha (entropy - target_entropy),  0 if no step is followed by another

    Args:
      values: float32 [2, T, B]: Q_i(x_t, a_t) of the actions taken.
      fresh_values: float32 [2, T, B]: Q_i(x_t, a), differentiable in a.
      target_values: float32 [2, L - 1, B]: the target critics' Q'_i(x_t, a') for all but the first step.
      log_prob: float32 [L, B]: log probabilities of the fresh actions, differentiable.
      temperature: alpha, float32 scalar.
      target_entropy: the entropy that the temperature aims for, nats.
      env_output: `reward`, `done` and `last` [L, B].
      importance_weights: float32 [B].
      config: all other settings.
    """
    steps = config.unroll_length
    alpha = tf.stop_gradient(temperature)
    r_t, discount_t, last_t = transitions_of(env_output, config)
    r_t -= discount_t * alpha * log_prob[1:]  # entropy bonus of the state reached
    values_t = tf.reduce_min(target_values, axis=0)
    targets = n_step_returns(r_t, discount_t, values_t, config.n_steps, last_t)[:steps]
    errors = tf.where(last_t[:steps], 0.0, tf.stop_gradient(targets) - values)
    squares = tf.reduce_sum(tf.square(errors), axis=0)
    acted_t = 1.0 - tf.cast(last_t[:steps], tf.float32)
    entropy = -mean(log_prob[:steps], acted_t)
    excess = tf.where(tf.reduce_any(acted_t > 0.0), entropy - target_entropy, 0.0)  # a mean over nothing says nothing
    critics = 0.5 * tf.reduce_mean(importance_weights * squares)
    actor = tf.reduce_mean(acted_t * (alpha * log_prob[:steps] - tf.reduce_min(fresh_values, axis=0)))
    return LossOutput(
        {
            "critics": critics,
            "actor": actor,
            "temperature": temperature * tf.stop_gradient(excess),
        },
        metrics={
            "loss/total": critics + actor,
            "loss/critics": critics,
            "loss/actor": actor,
            "policy/entropy": entropy,
            "policy/temperature": temperature,
            "q/value": tf.reduce_mean(values),
            "q/abs_td_error": tf.reduce_mean(tf.abs(errors)),
        },
        priorities=sequence_priorities(tf.reduce_mean(tf.abs(errors), axis=0), last_t[:steps]),
    )
