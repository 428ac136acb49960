"""The loss of the PQN agent, from tensors (arXiv:2407.04811).

Shapes: T actions, so T + 1 steps with the one that bootstraps, B sequences, A actions to choose from.
"""

import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.agents.pqn.config import PQN
from seed_rl.agents.transitions import transitions_of
from seed_rl.rl import q_learning
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.types import EnvOutput


def pqn_targets(q: tf.Tensor, env_output: EnvOutput, config: PQN) -> tf.Tensor:
    """The lambda-returns of the greedy policy, float32 [T, B], which stay the same in all passes over a batch.

    Args:
      q: float32 [T + 1, B, A], from the weights before the first pass.
      env_output: `reward`, `done` and `last` [T + 1, B].
      config: settings of the targets.
    """
    r_t, discount_t, last_t = transitions_of(env_output, config)
    greedy = tf.reduce_max(q, axis=-1)
    return lambda_returns(discount_t, r_t, greedy[:-1], greedy[-1], last_t=last_t, lambda_=config.lambda_)


def pqn_loss(q: tf.Tensor, action: tf.Tensor, targets: tf.Tensor, last: tf.Tensor) -> LossOutput:
    """Half the mean squared error to the targets, zero where no transition follows, and its metrics.

    Args:
      q: float32 [T + 1, B, A].
      action: int32 [T + 1, B].
      targets: float32 [T, B]; no gradient flows through them.
      last: bool [T + 1, B]: whether an episode ends in a step, so that no transition follows.
    """
    values = q_learning.q_of_actions(q, action)[:-1]
    errors = tf.where(last[:-1], 0.0, tf.stop_gradient(targets) - values)
    total = 0.5 * tf.reduce_mean(tf.square(errors))
    means = {"q/value": tf.reduce_mean(values), "q/abs_td_error": tf.reduce_mean(tf.abs(errors))}
    return LossOutput({"model": total}, {"loss/total": total, **means}, maxima={"q/max_value": tf.reduce_max(values)})
