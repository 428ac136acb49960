import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.config import CannotAct
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.experiment import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput, Unroll

SPEC = EnvSpec(ArraySpec((36, 40, 1), "uint8"), DiscreteSpec(5))
SMALL = VTrace(torso="mlp", hidden=16, unroll_length=4)
RECURRENT = dataclasses.replace(SMALL, lstm_units=8, previous_step_inputs=True)
VARIANTS = [
    SMALL,
    VTrace(torso="shallow", hidden=32, unroll_length=3, dtype="mixed_bfloat16"),
    VTrace(torso="shallow", hidden=32, unroll_length=3, lstm_units=8, previous_step_inputs=True),
    VTrace(torso="deep", hidden=16, unroll_length=2, lstm_units=8, previous_step_inputs=True, frame_stack=1),
    VTrace(torso="deep", hidden=16, unroll_length=1, frame_stack=2, dtype="mixed_bfloat16"),
    VTrace(
        torso="shallow",
        hidden=32,
        unroll_length=3,
        lstm_units=8,
        previous_step_inputs=True,
        dtype="mixed_bfloat16",
        kernel_initializer="he_normal",
    ),
]


NUMBERS = ArraySpec((5,), "float32")
SEVERAL = {
    "right": ArraySpec((3, 5, 2), "uint8"),
    "left": ArraySpec((4, 4, 1), "uint8"),
    "board": ArraySpec((4, 3), "uint16"),
    "speed": ArraySpec((), "float64"),
    "cells": ArraySpec((2, 3), "bool"),
}
CHOICES = MultiDiscreteSpec((2, 3))
FORCES = ContinuousSpec((-1.0, 0.0, -3.0), (1.0, 5.0, -2.0))
OTHERS = [
    (SMALL, EnvSpec(NUMBERS, DiscreteSpec(5))),
    (SMALL, EnvSpec(NUMBERS, CHOICES)),
    (dataclasses.replace(SMALL, mlp_layers=2), EnvSpec(NUMBERS, FORCES)),
    (RECURRENT, EnvSpec(ArraySpec((), "int64"), CHOICES)),
    (RECURRENT, EnvSpec(NUMBERS, FORCES)),
    (RECURRENT, EnvSpec(SEVERAL, DiscreteSpec(5))),
    (RECURRENT, EnvSpec(SEVERAL, CHOICES)),
    (dataclasses.replace(SMALL, torso="auto", dtype="mixed_bfloat16"), EnvSpec(SEVERAL, FORCES)),
    (
        dataclasses.replace(RECURRENT, torso="deep", channels=(4, 6), residual_blocks=1, frame_stack=2),
        EnvSpec(SEVERAL, FORCES),
    ),
]
"""Configs with the environments that they act in."""


def name_of(value):
    """A spec, or what a config says."""
    if isinstance(value, EnvSpec):
        return str(value)
    defaults = dataclasses.asdict(VTrace())
    return str({k: v for k, v in dataclasses.asdict(value).items() if v != defaults[k]})


def variants_and_others(function):
    """With `config` and `spec`."""
    cases = [*((config, SPEC) for config in VARIANTS), *OTHERS]
    return pytest.mark.parametrize(("config", "spec"), cases, ids=name_of)(function)


def random_tensor(rng, spec, batch):
    shape = (batch, *spec.shape)
    if spec.dtype == "bool":
        return tf.constant(rng.random(shape) < 0.5)
    if spec.dtype.startswith("float"):
        return tf.constant(rng.normal(size=shape), spec.dtype)
    largest = 100 if spec.dtype == "int64" else np.iinfo(spec.dtype).max
    return tf.constant(rng.integers(0, largest, shape, endpoint=True), spec.dtype)


def random_output(rng, batch, spec):
    """What random environments might say."""
    reward, done = rng.normal(size=batch).astype(np.float32), rng.random(batch) < 0.3
    tensors = {name: random_tensor(rng, tensor, batch) for name, tensor in spec.observation_tensors()}
    return EnvOutput(tf.constant(reward), tf.constant(done), tensors.get("", tensors))


def act_unroll(agent, batch, seed=0, length=None, spec=SPEC):
    """An unroll that the agent acted itself in random environments."""
    rng = np.random.default_rng(seed)
    state = initial = agent.initial_state(batch)
    prev_action = tf.zeros([batch, *spec.action.tensor.shape], spec.action.tensor.dtype)
    steps = []
    for t in range(length or agent.length):
        output = random_output(rng, batch, spec)
        answer = agent.act(prev_action, output, state, tf.range(batch), tf.constant([seed, t]))
        steps.append((prev_action, output, answer.action, answer.behaviour))
        prev_action, state = answer.action, answer.state
    fields = tf.nest.map_structure(lambda *values: tf.stack(values), *steps)
    return Unroll(initial, *fields)


def move(agent, seed):
    """Changes every weight, so that actions are no longer equally likely."""
    rng = np.random.default_rng(seed)
    for weight in agent.trainable_variables:
        weight.assign_add(rng.normal(scale=0.2, size=weight.shape).astype(np.float32))


def bounds_of(action):
    """The least and the greatest action."""
    if isinstance(action, ContinuousSpec):
        return np.array(action.low), np.array(action.high)
    return np.array(0), np.array(action.n) - 1


@variants_and_others
def test_acts_and_learns(config, spec):
    agent = config.build(spec, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=2, spec=spec)
    num_parameters = {DiscreteSpec: 5, MultiDiscreteSpec: 2 + 3, ContinuousSpec: 2 * 3}[type(spec.action)]
    assert unroll.action.dtype == spec.action.tensor.dtype
    assert unroll.action.shape == (config.unroll_length + 1, 2, *spec.action.tensor.shape)
    low, high = bounds_of(spec.action)
    assert np.all((unroll.action >= low) & (unroll.action <= high))
    assert agent.behaviour_spec.shape == (num_parameters,)
    assert unroll.behaviour.dtype == agent.behaviour_spec.dtype == tf.float32
    assert unroll.behaviour.shape == (config.unroll_length + 1, 2, num_parameters)
    with tf.GradientTape() as tape:
        output = agent.loss(unroll)
    gradients = tape.gradient(output.loss, [weight.value for weight in agent.trainable_variables])
    assert all(gradient is not None for gradient in gradients), "every weight takes part in the loss"
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert {"loss/total", "loss/policy", "loss/baseline", "loss/entropy", "policy/entropy"} <= set(output.metrics)
    assert float(output.metrics["loss/total"]) == pytest.approx(
        sum(float(output.metrics[f"loss/{part}"]) for part in ("policy", "baseline", "entropy")), rel=1e-4
    )


@variants_and_others
def test_learner_and_actor_see_the_same_policy(config, spec):
    """The unrolled network equals step-by-step acting, so on unchanged weights the policy has not moved."""
    agent = config.build(spec, num_training_envs=2, seed=1)
    if spec != SPEC:
        move(agent, seed=1)
    unroll = act_unroll(agent, batch=3, length=agent.length, spec=spec)
    tolerance = 2e-2 if config.dtype == "mixed_bfloat16" else 1e-5
    assert float(agent.loss(unroll).metrics["policy/kl_behaviour_target"]) == pytest.approx(0, abs=tolerance)
    output, _ = agent._network(unroll.prev_action, unroll.env_output, unroll.initial_state)
    np.testing.assert_allclose(output.policy, unroll.behaviour, atol=10 * tolerance)
    if spec != SPEC:
        spread = np.ptp(unroll.behaviour.numpy(), axis=(0, 1)).min()
        assert spread > 20 * tolerance, "what it sees makes a difference"


def test_the_seed_draws_weights_and_actions():
    def logits(seed):
        return act_unroll(SMALL.build(SPEC, 2, seed), batch=2).behaviour.numpy()

    np.testing.assert_array_equal(logits(1), logits(1))
    assert not np.array_equal(logits(1), logits(2))


def test_rewards_are_clipped_if_asked():
    unroll = act_unroll(SMALL.build(SPEC, 2, 1), batch=2)
    large = unroll._replace(env_output=unroll.env_output._replace(reward=tf.fill([5, 2], 100.0)))
    ones = unroll._replace(env_output=unroll.env_output._replace(reward=tf.ones([5, 2])))

    def loss(config, batch):
        return float(config.build(SPEC, 2, 1).loss(batch).loss)

    clipped = dataclasses.replace(SMALL, max_abs_reward=1.0)
    assert loss(clipped, large) == loss(clipped, ones) == loss(SMALL, ones)
    assert loss(SMALL, large) != loss(SMALL, ones)


@pytest.mark.parametrize(("target", "direction"), [(0.1, -1), (1.7, 1)])
def test_the_entropy_cost_moves_towards_the_target_entropy(target, direction):
    config = dataclasses.replace(SMALL, target_entropy=target, entropy_cost=0.01)
    agent = config.build(SPEC, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=2)
    variable = agent.trainable_variables[-1]
    with tf.GradientTape() as tape:
        output = agent.loss(unroll)
    gradient = tape.gradient(output.loss, variable.value)
    assert float(output.metrics["policy/entropy_cost"]) == pytest.approx(0.01)
    assert np.sign(-float(gradient)) == direction, "descent lowers the cost above the target and raises it below"


def test_rewards_are_scaled_before_they_are_clipped():
    unroll = act_unroll(SMALL.build(SPEC, 2, 1), batch=2)

    def loss(reward, **settings):
        batch = unroll._replace(env_output=unroll.env_output._replace(reward=tf.fill([5, 2], reward)))
        return float(dataclasses.replace(SMALL, **settings).build(SPEC, 2, 1).loss(batch).loss)

    assert loss(8.0, reward_scale=0.25) == loss(2.0) != loss(8.0)
    assert loss(8.0, reward_scale=0.25, max_abs_reward=1.0) == loss(1.0)
    assert loss(8.0, reward_scale=0.0625, max_abs_reward=1.0) == loss(0.5)


def rewarded(actions, spec):
    """float32 [T, B]: the share of an action's parts that are the largest choice, or in the upper half of a range."""
    low, high = bounds_of(spec)
    right = actions > (low + high) / 2 if isinstance(spec, ContinuousSpec) else actions.numpy() == high
    return np.reshape(right, (*actions.shape[:2], -1)).mean(axis=-1, dtype=np.float32)


@pytest.mark.parametrize(
    ("action", "chance"), [(DiscreteSpec(3), 1 / 3), (CHOICES, (1 / 2 + 1 / 3) / 2), (FORCES, 1 / 2)], ids=str
)
def test_it_learns_to_take_the_actions_that_are_rewarded(action, chance):
    spec = EnvSpec({"a": NUMBERS, "b": ArraySpec((2,), "bool")}, action)
    agent = dataclasses.replace(SMALL, unroll_length=10, discount=0.0, entropy_cost=0.0).build(spec, 16, seed=1)
    train_step = TrainStep(agent, Optimizer(learning_rate=0.03))
    successes = []
    for seed in range(60):
        unroll = act_unroll(agent, batch=16, seed=seed, spec=spec)
        rewards = rewarded(unroll.action, action)
        successes.append(np.mean(rewards))
        # The reward of an action comes with the next step.
        reward = tf.constant(np.concatenate([np.zeros_like(rewards[:1]), rewards[:-1]]))
        train_step(unroll._replace(env_output=unroll.env_output._replace(reward=reward)), 0.0, None)
    assert successes[0] == pytest.approx(chance, abs=0.1)
    assert np.mean(successes[-5:]) > 0.9


@pytest.mark.parametrize("action", [DiscreteSpec(5), CHOICES, FORCES], ids=str)
def test_actions_are_drawn_from_the_policy_by_the_seed_of_the_step(action):
    spec = EnvSpec(SEVERAL, action)
    agent = RECURRENT.build(spec, num_training_envs=2, seed=1)
    rng, blank = np.random.default_rng(0), tf.zeros([3, *action.tensor.shape], action.tensor.dtype)
    output = random_output(rng, 3, spec)
    draws = [
        agent.act(blank, output, agent.initial_state(3), tf.range(3), tf.constant([7, t])) for t in (*range(20), 0)
    ]
    actions = [draw.action.numpy() for draw in draws]
    np.testing.assert_array_equal(actions[0], actions[-1])
    assert all(np.any(a != b) for a, b in itertools.pairwise(actions[:5]))
    for draw in draws:
        np.testing.assert_array_equal(draw.behaviour, draws[0].behaviour, err_msg="the policy is the same each time")


@pytest.mark.parametrize("action", [DiscreteSpec(5), CHOICES, FORCES], ids=str)
def test_compiled_by_xla_it_acts_the_same(action):
    spec = EnvSpec(SEVERAL, action)
    agent = RECURRENT.build(spec, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=3, spec=spec)
    output = tf.nest.map_structure(lambda x: x[2], unroll.env_output)
    arguments = unroll.prev_action[2], output, agent.initial_state(3), tf.range(3), tf.constant([1, 2])
    act = tf.function(agent.act, jit_compile=True)
    compiled, again, expected = act(*arguments), act(*arguments), agent.act(*arguments)
    # XLA draws other random numbers: the actions of the same seed are the same, but not those of the plain graph.
    np.testing.assert_array_equal(compiled.action, again.action)
    assert (compiled.action.dtype, compiled.action.shape) == (expected.action.dtype, expected.action.shape)
    low, high = bounds_of(action)
    assert np.all((compiled.action >= low) & (compiled.action <= high))
    for actual, value in zip(tf.nest.flatten(compiled[1:]), tf.nest.flatten(expected[1:]), strict=True):
        np.testing.assert_allclose(actual, value, rtol=0, atol=1e-5)


PICTURE = ArraySpec((36, 36, 1), "uint8")
TAKES_PICTURES = "torso takes pictures, uint8 .* or uint16 .* of bit planes, got "


@pytest.mark.parametrize(
    ("torso", "observation", "message"),
    [
        (
            "shallow",
            ArraySpec((4,), "float32"),
            f"the shallow {TAKES_PICTURES}observation float32\\[4\\]; action .*; VTrace.torso = 'mlp' takes anything",
        ),
        ("deep", ArraySpec((9, 9), "uint8"), f"the deep {TAKES_PICTURES}observation uint8\\[9, 9\\]; action"),
        (
            "deep",
            {"a": ArraySpec((2,), "bool"), "b": ArraySpec((), "int64")},
            f"the deep {TAKES_PICTURES}a bool\\[2\\], b int64\\[\\]; action",
        ),
        (
            "shallow",
            ArraySpec((20, 36, 1), "uint8"),
            r"the shallow torso needs frames of at least 36 x 36, got observation uint8\[20, 36, 1\]",
        ),
        (
            "shallow",
            {"a": PICTURE, "b": ArraySpec((36, 35), "uint16")},
            r"the shallow torso needs frames of at least 36 x 36, got a uint8\[36, 36, 1\], b uint16\[36, 35\]",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("action", [DiscreteSpec(2), CHOICES, FORCES], ids=str)
def test_environments_it_cannot_act_in_are_named(torso, observation, message, action):
    with pytest.raises(CannotAct, match=message):
        VTrace(torso=torso).build(EnvSpec(observation, action), num_training_envs=2, seed=1)


@pytest.mark.parametrize(("shape", "torso"), [((36, 36, 1), "shallow"), ((20, 36, 1), "mlp"), ((4,), "mlp")])
def test_the_torso_is_chosen_by_what_there_is_to_see(shape, torso):
    spec = EnvSpec(ArraySpec(shape, "uint8"), DiscreteSpec(2))

    def weights(torso):
        agent = VTrace(torso=torso, hidden=8).build(spec, num_training_envs=1, seed=1)
        return [weight.numpy() for weight in agent.trainable_variables]

    for chosen, expected in zip(weights("auto"), weights(torso), strict=True):
        np.testing.assert_array_equal(chosen, expected, strict=True)


def test_sizes_of_the_network_are_those_of_the_settings():
    spec = EnvSpec({"a": ArraySpec((6, 5, 3), "uint8"), "b": ArraySpec((7,), "float32")}, CHOICES)
    config = VTrace(torso="deep", hidden=9, mlp_layers=3, channels=(4, 6), residual_blocks=1, frame_stack=2)
    kernels = [w.shape for w in config.build(spec, 1, seed=1).trainable_variables if len(w.shape) > 1]
    convolutions = [(3, 3, 6, 4), (3, 3, 4, 4), (3, 3, 4, 4), (3, 3, 4, 6), (3, 3, 6, 6), (3, 3, 6, 6)]
    assert kernels == [*convolutions, (2 * 2 * 6, 9), (7, 9), (9, 9), (9, 9), (18, 5), (18, 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "deeper"}, "VTrace.torso must be one of auto, shallow, deep, mlp, module:Class, got 'deeper'"),
        ({"channels": ()}, r"VTrace.channels must be positive integers, got \(\)"),
        ({"channels": (16, 2.0)}, r"VTrace.channels must be positive integers, got \(16, 2.0\)"),
        ({"channels": 16}, "VTrace.channels must be tuple, got 16"),
        ({"mlp_layers": 0}, "VTrace.mlp_layers must be at least 1, got 0"),
        ({"residual_blocks": 0}, "VTrace.residual_blocks must be at least 1, got 0"),
        ({"hidden": -1}, "VTrace.hidden must be at least 0, got -1"),
        ({"reward_scale": "1"}, "VTrace.reward_scale must be float, got '1'"),
        ({"discount": 1.5}, r"VTrace.discount must be in \[0, 1\], got 1.5"),
        ({"unroll_length": 0}, "VTrace.unroll_length must be at least 1, got 0"),
        ({"entropy_cost": -1.0}, "VTrace.entropy_cost must be at least 0, got -1.0"),
        ({"unroll_length": 2.5}, "VTrace.unroll_length must be int, got 2.5"),
        ({"previous_step_inputs": 1}, "VTrace.previous_step_inputs must be bool, got 1"),
        ({"target_entropy": 1.0, "entropy_cost": 0.0}, "needs a positive VTrace.entropy_cost"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        VTrace(**settings)
