"""Random experience: observations of several kinds, and unrolls that an agent acted itself."""

import itertools

import numpy as np
import tensorflow as tf

from seed_rl.envs.base import random_actions
from seed_rl.specs import ArraySpec, ContinuousSpec, MixedSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput, Unroll

CHOICES = MultiDiscreteSpec((2, 3))
MIXED = MixedSpec((4, 7), (-2.0, 0.0), (2.0, 0.5))
"""Two choices and two numbers."""
FORCES = ContinuousSpec((-1.0, 0.0, -3.0), (1.0, 5.0, -2.0))
NUMBERS = ArraySpec((5,), "float32")
SEVERAL = {
    "right": ArraySpec((3, 5, 2), "uint8"),
    "left": ArraySpec((4, 4, 1), "uint8"),
    "board": ArraySpec((4, 3), "uint16"),
    "speed": ArraySpec((), "float64"),
    "cells": ArraySpec((2, 3), "bool"),
}
"""Observations of every kind, not in the order of their names."""


def random_tensor(rng, spec, leading):
    """A tensor [*leading, ...] of an `ArraySpec`."""
    shape = (*leading, *spec.shape)
    if spec.dtype == "bool":
        return tf.constant(rng.random(shape) < 0.5)
    if spec.dtype.startswith("float"):
        return tf.constant(rng.normal(size=shape), spec.dtype)
    largest = 100 if spec.dtype == "int64" else np.iinfo(spec.dtype).max
    return tf.constant(rng.integers(0, largest, shape, endpoint=True), spec.dtype)


def random_output(rng, spec, leading, done=0.3):
    """An `EnvOutput` with fields [*leading, ...] of an `EnvSpec`."""
    tensors = {name: random_tensor(rng, tensor, leading) for name, tensor in spec.observation_tensors()}
    reward, begins = rng.normal(size=leading), rng.random(leading) < done
    last = np.roll(begins, -1, axis=0) & (rng.random(leading) < 0.5)  # an episode ends where the next one begins
    return EnvOutput(tf.constant(reward, tf.float32), tf.constant(begins), tf.constant(last), tensors.get("", tensors))


def random_steps(spec, length, batch, seed=0, done=0.25):
    """`prev_action` and `env_output` of T steps of B environments."""
    rng = np.random.default_rng([length, batch, seed])
    actions = np.stack([random_actions(spec.action, rng, batch) for _ in range(length)])
    return tf.constant(actions), random_output(rng, spec, (length, batch), done)


def acted_unroll(agent, batch, seed=0, warm_up=2, act=None):
    """An unroll that the agent acted itself, step by step, after `warm_up` steps; by `act` if given, a compiled one.

    The first environment's episode goes on for ever.
    """
    rng, spec = np.random.default_rng(seed), agent.env_spec
    begins = (rng.random((warm_up + agent.length + 1, batch)) < 0.4) & (np.arange(batch) > 0)
    lasts = begins[1:] & (rng.random((warm_up + agent.length, batch)) < 0.5)
    state, steps = agent.initial_state(batch), []
    prev_action = tf.zeros([batch, *spec.action.tensor.shape], spec.action.tensor.dtype)
    for t in range(warm_up + agent.length):
        if t == warm_up:
            initial = state
        output = random_output(rng, spec, (batch,))
        output = output._replace(done=tf.constant(begins[t]), last=tf.constant(lasts[t]))
        answer = (act or agent.act)(prev_action, output, state, tf.range(batch), tf.constant([seed, t]))
        steps.append((prev_action, output, answer.action, answer.behaviour))
        prev_action, state = answer.action, answer.state
    return Unroll(initial, *tf.nest.map_structure(lambda *fields: tf.stack(fields), *steps[warm_up:]))


def with_targets(agent, unroll):
    """The unroll as the loss gets it."""
    return unroll._replace(targets=agent.targets(unroll))


def move(agent, seed, scale=0.5):
    """Changes every trained weight, so that actions are no longer nearly equal."""
    rng = np.random.default_rng(seed)
    for weight in itertools.chain(*(group.variables for group in agent.groups.values())):
        weight.assign_add(rng.normal(scale=scale, size=weight.shape).astype(np.float32))


def assert_matches_step_spec(agent, unroll):
    """The record of a step is as `Agent.step_spec` says."""
    spec, unroll = agent.step_spec, unroll._replace(initial_state=agent.stored_state(unroll.initial_state))
    tf.nest.assert_same_structure(spec, unroll)
    step = unroll._replace(initial_state=())
    for own, tensor in zip(tf.nest.flatten(spec._replace(initial_state=())), tf.nest.flatten(step), strict=True):
        assert (own.dtype, own.shape) == (tensor.dtype, tensor.shape[2:])
    for own, tensor in zip(tf.nest.flatten(spec.initial_state), tf.nest.flatten(unroll.initial_state), strict=True):
        assert (own.dtype, own.shape) == (tensor.dtype, tensor.shape[1:])
