"""Transitions: the outcomes of actions, read from the steps that report them.

Shapes: T actions in T + 1 steps, B sequences.
"""

from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.config import AgentConfig
from seed_rl.types import EnvOutput


class Transitions(NamedTuple):
    """Index t refers to the action a_t taken in state x_t, whose outcome step t + 1 reports."""

    r_t: tf.Tensor
    """float32 [T, B]: the reward of a_t, scaled and clipped as the settings say."""
    discount_t: tf.Tensor
    """float32 [T, B]: gamma, zero where no value follows because x_{t+1} belongs to another episode."""
    last_t: tf.Tensor
    """bool [T, B]: whether an episode ends in x_t, so that a_t leads nowhere and nothing can be learned from it."""


def transitions_of(env_output: EnvOutput, config: AgentConfig) -> Transitions:
    """The transitions in unrolls whose steps are `env_output`, fields [T + 1, B, ...]."""
    r_t = config.reward_scale * env_output.reward[1:]
    if config.max_abs_reward:
        r_t = tf.clip_by_value(r_t, -config.max_abs_reward, config.max_abs_reward)
    done, last = tf.convert_to_tensor(env_output.done), tf.convert_to_tensor(env_output.last)
    ends = (done | last if config.truncation_is_termination else done)[1:]
    return Transitions(r_t, config.discount * (1.0 - tf.cast(ends, tf.float32)), last[:-1])
