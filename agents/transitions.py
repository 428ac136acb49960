"""The outcomes of actions, read from the steps that report them.

Shapes: T actions, B sequences, so T + 1 steps.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.config import AgentConfig
from seed_rl.types import EnvOutput


class Transitions(NamedTuple):
    """Index t belongs to the action a_t, taken in state x_t; its outcome is reported by step t + 1."""

    r_t: tf.Tensor
    """float32 [T, B]: its reward, as the agent learns from it."""
    discount_t: tf.Tensor
    """float32 [T, B]: gamma, zero where no value follows: x_{t+1} is of another episode."""
    last_t: tf.Tensor
    """bool [T, B]: whether an episode ends in x_t, so that a_t leads nowhere and there is nothing to learn from it."""


def transitions_of(env_output: EnvOutput, config: AgentConfig) -> Transitions:
    """The transitions between the steps of unrolls; fields of `env_output` [T + 1, B, ...]."""
    r_t = config.reward_scale * env_output.reward[1:]
    if config.max_abs_reward:
        r_t = tf.clip_by_value(r_t, -config.max_abs_reward, config.max_abs_reward)
    done, last = tf.convert_to_tensor(env_output.done), tf.convert_to_tensor(env_output.last)
    ends = (done | last if config.truncation_is_termination else done)[1:]
    return Transitions(r_t, config.discount * (1.0 - tf.cast(ends, tf.float32)), last[:-1])
