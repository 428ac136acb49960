"""An agent of two small variables whose losses, gradients and priorities are closed forms."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent, LossOutput, VariableGroup
from seed_rl.types import EnvOutput, Unroll

LENGTH = 3
"""L, and the size of the vector."""


class QuadraticAgent(Agent):
    """Pulls a vector towards the rewards of each sequence's steps, and a scalar towards zero.

    In one group, or in two: then each loss depends on the variables of both groups, and the scalar has an optimizer of
    its own, RMSProp.
    """

    unroll_length = LENGTH - 1

    def __init__(self, two_groups=False, scalar_clip_norm=0.0):
        self._vector = keras.Variable([1.0, -2.0, 0.5], dtype="float32", name="vector")
        self._scalar = keras.Variable(3.0, dtype="float32", name="scalar")
        self._two_groups = two_groups
        self._scalar_settings = {
            "name": "rmsprop",
            "learning_rate": 0.02,
            "schedule": "constant",
            "clip_norm": scalar_clip_norm,
        }

    @property
    def variables(self):
        return [self._vector, self._scalar]

    @property
    def groups(self):
        if not self._two_groups:
            return {"both": VariableGroup(self.variables)}
        return {
            "vector": VariableGroup([self._vector]),
            "scalar": VariableGroup([self._scalar], lambda own: dataclasses.replace(own, **self._scalar_settings)),
        }

    def initial_state(self, batch_size):
        return tf.zeros([batch_size])

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        raise NotImplementedError("learner tests bring their own unrolls")

    def loss(self, unroll, importance_weights, seed=(0, 0)):
        reward = unroll.env_output.reward
        distance = 0.5 * tf.reduce_sum(tf.square(self._vector[:, None] - reward), axis=0)
        pull, shrink = tf.reduce_mean(importance_weights * distance), tf.square(self._scalar.value)
        losses = {"both": pull + shrink}
        if self._two_groups:
            losses = {"vector": pull + 10.0 * self._scalar * pull, "scalar": shrink + self._scalar * self._vector[0]}
        return LossOutput(
            losses,
            # Against the order of the alphabet, and not all of one dtype.
            metrics={"loss/pull": pull, "a/shrink": shrink, "a/size": tf.size(reward)},
            maxima={"reward/max": tf.reduce_max(reward), "a/state": tf.reduce_max(unroll.initial_state)},
            priorities=unroll.initial_state + 10.0 * reward[1] + 100.0 * importance_weights,
        )

    def numpy(self):
        """The variables as one float64 [4]."""
        return np.concatenate([self._vector.numpy(), [self._scalar.numpy()]]).astype(np.float64)


def unroll_of(reward, initial_state=None):
    """A batch for `QuadraticAgent`, from rewards [L, B] and states [B]."""
    zeros = tf.zeros(reward.shape, tf.int32)
    env_output = EnvOutput(tf.constant(reward, tf.float32), *[tf.zeros(reward.shape, tf.bool)] * 2, ())
    states = np.zeros(reward.shape[1]) if initial_state is None else initial_state
    return Unroll(tf.constant(states, tf.float32), zeros, env_output, zeros, ())
