"""V-trace and PPO: acting and learning in every kind of environment, and the adjusted entropy cost."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, CannotAct, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput
from tests.support.experience import (
    CHOICES,
    FORCES,
    NUMBERS,
    SEVERAL,
    acted_unroll,
    assert_matches_step_spec,
    move,
    random_output,
    with_targets,
)

SPEC = EnvSpec(ArraySpec((36, 40, 1), "uint8"), DiscreteSpec(5))
SMALL = VTrace(torso="mlp", hidden=16, unroll_length=4)
RECURRENT = dataclasses.replace(SMALL, core="lstm", core_units=8, previous_step_inputs=True)
ROLES = EnvSpec({"role": ArraySpec((2,), "bool"), "numbers": NUMBERS}, CHOICES)
BY_ROLE = dataclasses.replace(RECURRENT, network_per_role=True, value_norm=True)
VARIANTS = [
    (SMALL, SPEC),
    (dataclasses.replace(RECURRENT, torso="shallow", dtype="mixed_bfloat16", kernel_initializer="he_normal"), SPEC),
    (dataclasses.replace(RECURRENT, torso="deep", channels=(4, 6), unroll_length=1, frame_stack=1), SPEC),
    (dataclasses.replace(SMALL, mlp_layers=2, clip_ratio=0.2), EnvSpec(NUMBERS, FORCES)),
    (PPO(hidden=16, unroll_length=4, clip_value=0.2), EnvSpec(NUMBERS, FORCES)),
    (RECURRENT, EnvSpec(ArraySpec((), "int64"), CHOICES)),
    (RECURRENT, EnvSpec(SEVERAL, CHOICES)),
    (BY_ROLE, ROLES),
    (dataclasses.replace(SMALL, torso="auto", dtype="mixed_bfloat16"), EnvSpec(SEVERAL, FORCES)),
]
"""Configs with the environments that they act in."""


def name_of(value):
    """A spec, or what a config says."""
    if isinstance(value, EnvSpec):
        return str(value)
    defaults = dataclasses.asdict(type(value)())
    return str({k: v for k, v in dataclasses.asdict(value).items() if v != defaults[k]})


def bounds_of(action):
    """The least and the greatest action."""
    if isinstance(action, ContinuousSpec):
        return np.array(action.low), np.array(action.high)
    return np.array(0), np.array(action.n) - 1


def with_reward(unroll, reward):
    return unroll._replace(env_output=unroll.env_output._replace(reward=tf.cast(reward, tf.float32)))


@pytest.mark.parametrize(("config", "spec"), VARIANTS, ids=name_of)
def test_acts_and_learns_from_the_same_policy(config, spec):
    """The unrolled network equals step-by-step acting, so on unchanged weights the policy has not moved."""
    agent = config.build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.02 if spec == SPEC else 0.2)
    unroll = acted_unroll(agent, batch=3)
    num_parameters = {DiscreteSpec: 5, MultiDiscreteSpec: 2 + 3, ContinuousSpec: 2 * 3}[type(spec.action)]
    assert unroll.action.shape == (config.unroll_length + 1, 3, *spec.action.tensor.shape)
    assert unroll.behaviour.policy.shape == (config.unroll_length + 1, 3, num_parameters)
    assert_matches_step_spec(agent, unroll)
    low, high = bounds_of(spec.action)
    assert np.all((unroll.action >= low) & (unroll.action <= high))

    with tf.GradientTape() as tape:
        output = agent.loss(with_targets(agent, unroll), tf.ones([3]))
    names = {"role_0", "role_1"} if config.network_per_role else {"model"}
    assert output.losses.keys() == agent.groups.keys() == names
    assert all(float(loss) == float(output.metrics["loss/total"]) for loss in output.losses.values())
    for gradient in tape.gradient(output.metrics["loss/total"], [weight.value for weight in agent.trainable_variables]):
        assert gradient is not None, "every weight takes part in the loss"
        assert np.isfinite(gradient).all()

    tolerance = 2e-2 if config.dtype == "mixed_bfloat16" else 1e-5
    assert float(output.metrics["policy/kl_behaviour_target"]) == pytest.approx(0, abs=tolerance)
    outputs, _ = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
    for learned, acted in zip(outputs, unroll.behaviour, strict=True):
        np.testing.assert_allclose(learned, acted, atol=10 * tolerance)
    if spec != SPEC:
        of_state = slice(3) if config.continuous_policy == "clipped" else slice(None)  # deviations don't depend on it
        spread = np.ptp(unroll.behaviour.policy.numpy(), axis=(0, 1))[of_state].min()
        assert spread > 20 * tolerance, "observations make a difference"


def test_the_entropy_cost_is_a_lagrange_multiplier_with_a_separate_learning_rate():
    """Five equal actions have an entropy of 1.6; Adam's first step is one learning rate long."""
    target, direction = 1.7, 1
    config = dataclasses.replace(SMALL, target_entropy=target, entropy_cost=0.01, entropy_cost_adjustment_speed=20.0)
    agent, plain = (each.build(SPEC, num_training_envs=2, seed=1) for each in (config, SMALL))
    unroll = acted_unroll(agent, batch=2)
    assert list(agent.groups) == ["model", "entropy_cost"]
    (log_cost,) = agent.groups["entropy_cost"].variables
    assert any(variable is log_cost for variable in agent.variables), "checkpoints hold it"
    assert len(agent.variables) == len(plain.variables) + 1
    assert float(log_cost.value) == pytest.approx(math.log(0.01))

    output = agent.loss(unroll, tf.ones([2]))
    same_cost = dataclasses.replace(SMALL, entropy_cost=0.01).build(SPEC, num_training_envs=2, seed=1)
    assert float(output.losses["model"]) == pytest.approx(float(same_cost.loss(unroll, tf.ones([2])).losses["model"]))
    assert float(output.metrics["policy/entropy_cost"]) == pytest.approx(0.01)

    train_step = TrainStep(agent, Optimizer(learning_rate=0.001))
    metrics = train_step(unroll, 0.0, np.ones(2)).metrics
    assert metrics["entropy_cost/learning_rate"] == pytest.approx(0.02)
    assert metrics["learning_rate"] == pytest.approx(0.001)
    assert float(log_cost.value) == pytest.approx(math.log(0.01) + direction * 0.02, rel=1e-4)
    log_cost.assign(20.5 * direction)
    train_step(unroll, 0.0, np.ones(2))
    assert float(log_cost.value) == 20.0 * direction, "kept from overflow"
    excess = metrics["policy/entropy"] - target
    assert metrics["entropy_cost/gradient_norm"] == pytest.approx(0.01 * abs(excess), rel=1e-3)


def rewarded(actions):
    """float32 [T, B]: the share of an action's parts that are in the upper half of their range."""
    low, high = bounds_of(FORCES)
    return np.mean(actions > (low + high) / 2, axis=-1, dtype=np.float32)


def test_it_learns_to_take_the_actions_that_are_rewarded():
    spec = EnvSpec({"a": NUMBERS, "b": ArraySpec((2,), "bool")}, FORCES)
    agent = dataclasses.replace(SMALL, unroll_length=10, discount=0.0, entropy_cost=0.0).build(spec, 16, seed=1)
    act, train_step = tf.function(agent.act, autograph=False), TrainStep(agent, Optimizer(learning_rate=0.03))
    successes = []
    for seed in range(60):
        unroll = acted_unroll(agent, batch=16, seed=seed, warm_up=0, act=act)
        rewards = rewarded(unroll.action)
        successes.append(np.mean(rewards))
        # The reward of an action comes with the next step.
        train_step(with_reward(unroll, np.concatenate([np.zeros_like(rewards[:1]), rewards[:-1]])), 0.0, np.ones(16))
    assert successes[0] == pytest.approx(1 / 2, abs=0.1)
    assert np.mean(successes[-5:]) > 0.9


def test_actions_are_drawn_by_the_seed_of_the_step_eagerly_and_compiled_and_greedy_ones_are_not_drawn():
    agent = RECURRENT.build(EnvSpec(SEVERAL, FORCES), num_training_envs=2, seed=1)
    move(agent, seed=1)
    blank = tf.zeros([3, 3])
    output = random_output(np.random.default_rng(0), agent.env_spec, (3,))
    arguments = blank, output, agent.initial_state(3), tf.range(3)
    low, high = bounds_of(FORCES)
    expected = agent.act(*arguments, tf.constant([7, 0]))
    # XLA draws other random numbers: its actions are other ones for the same seed.
    for act in (agent.act, tf.function(agent.act, jit_compile=True, autograph=False)):
        draws = [act(*arguments, tf.constant([7, t])) for t in (*range(8), 0)]
        actions = [draw.action.numpy() for draw in draws]
        np.testing.assert_array_equal(actions[0], actions[-1])
        assert any(np.any(each != actions[0]) for each in actions)
        assert np.all((np.array(actions) >= low) & (np.array(actions) <= high))
        assert actions[0].dtype == np.float32
        for draw in draws:
            for actual, value in zip(tf.nest.flatten(draw[1:]), tf.nest.flatten(expected[1:]), strict=True):
                np.testing.assert_allclose(actual, value, rtol=0, atol=1e-5, err_msg="policy and state")
    greedy = [agent.act(*arguments, tf.constant([7, t]), greedy=True).action.numpy() for t in range(3)]
    np.testing.assert_array_equal(greedy, [greedy[0]] * 3)
    mixed = agent.act(*arguments, tf.constant([7, 0]), greedy=tf.constant([False, True, False])).action.numpy()
    np.testing.assert_allclose(mixed, [expected.action[0], greedy[0][1], expected.action[2]], atol=1e-6)
    assert np.all(np.any(greedy[0] != expected.action.numpy(), axis=-1))


def test_the_value_starts_at_zero_and_the_policy_nearly_uniform():
    agent = dataclasses.replace(SMALL, hidden=256).build(SPEC, 2, seed=1)
    deviations = {v.path.split("/")[-2]: float(np.std(v.value)) for v in agent.model.variables if v.name == "kernel"}
    assert deviations["baseline"] == 0
    assert 0 < deviations["policy"] < 0.01 * math.sqrt(2 / 256)


def test_a_normalised_value_is_learned_as_fast_in_a_tiny_unit_of_reward():
    """Episodes of one step with a reward of 1 or 3, by the observation."""
    scale = 1e-6
    config = dataclasses.replace(SMALL, observation_norm=True, value_norm=True, reward_scale=scale, max_abs_reward=0)
    spec = EnvSpec(NUMBERS, DiscreteSpec(5))
    agent = config.build(spec, num_training_envs=2, seed=1)
    train_step, rng = TrainStep(agent, Optimizer(learning_rate=0.01)), np.random.default_rng(0)
    unroll = acted_unroll(agent, batch=32)
    done = tf.ones_like(unroll.env_output.done)
    for _ in range(60):
        high = rng.random(done.shape) < 0.5
        observation = scale * np.broadcast_to(np.where(high, 3.0, 1.0)[..., None], (*done.shape, *NUMBERS.shape))
        reward = np.concatenate([np.ones((1, 32)), np.where(high, 3.0, 1.0)[:-1]])
        steps = EnvOutput(
            tf.constant(reward, tf.float32), done, tf.zeros_like(done), tf.constant(observation, tf.float32)
        )
        train_step(unroll._replace(env_output=steps), 0.0, np.ones(32))
    values = agent.model(unroll.prev_action, steps, unroll.initial_state)[0].baseline.numpy() / scale
    np.testing.assert_allclose(values, np.where(high, 3.0, 1.0), atol=0.4)


@pytest.mark.parametrize(("limit", "ends"), [(0.0, False), (0.01, True), (1.0, False)])
def test_an_update_ends_when_the_policy_is_too_far_from_the_one_that_acted(limit, ends):
    agent = dataclasses.replace(SMALL, kl_stop=limit).build(SPEC, 4, seed=1)
    assert agent.learned_enough({"policy/kl_behaviour_target": 0.1}) == ends


def test_the_moments_of_value_targets_are_those_of_lambda_returns_of_the_acting_values():
    agent = dataclasses.replace(SMALL, value_norm=True, discount=0.9, lambda_=0.8).build(SPEC, 4, seed=1)
    move(agent, seed=1)
    unroll = acted_unroll(agent, batch=8)
    reward, done, last, values = (x.numpy() for x in (*unroll.env_output[:3], unroll.behaviour.baseline))
    assert last[:-1].any()
    target, targets = values[-1], []
    for t in reversed(range(agent.unroll_length)):
        target = reward[t + 1] + 0.9 * (1 - done[t + 1]) * (0.8 * target + 0.2 * values[t + 1])
        target = np.where(last[t], values[t], target)
        targets.append(target)
    expected = [np.mean(targets), np.mean(np.square(targets))]
    np.testing.assert_allclose(agent.moments(unroll).value_targets, expected, rtol=1e-5)


def test_the_gradients_of_repeated_words_are_added_up():
    spec = EnvSpec({"a": NUMBERS, "words": ArraySpec((4,), "uint16")}, DiscreteSpec(5))
    agent = SMALL.build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.2)
    unroll = acted_unroll(agent, batch=3)
    words = dict(unroll.env_output.observation, words=tf.fill([5, 3, 4], tf.constant(7, tf.uint16)))
    unroll = unroll._replace(env_output=unroll.env_output._replace(observation=words))
    with tf.GradientTape() as tape:
        loss = agent.loss(unroll, tf.ones([3])).losses["model"]
    gradients = tape.gradient(loss, [weight.value for weight in agent.trainable_variables])
    expected = tf.linalg.global_norm([tf.convert_to_tensor(gradient) for gradient in gradients])
    metrics = TrainStep(agent, Optimizer(learning_rate=0.001))(unroll, 0.0, np.ones(3)).metrics
    assert metrics["gradient_norm"] == pytest.approx(float(expected), rel=1e-4)


def test_the_seed_draws_the_weights():
    def weights(seed):
        return [weight.numpy() for weight in SMALL.build(SPEC, 2, seed).trainable_variables if np.any(weight)]

    for first, again, other in zip(weights(1), weights(1), weights(2), strict=True):
        np.testing.assert_array_equal(first, again)
        assert not np.any(first == other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "deeper"}, "VTrace.torso must be one of auto, shallow, deep, mlp, module:Class, got 'deeper'"),
        ({"core": "rnn"}, "VTrace.core must be one of none, lstm, gru, module:Class, got 'rnn'"),
        ({"dtype": "float16"}, "VTrace.dtype must be one of float32, mixed_bfloat16, got 'float16'"),
        ({"kernel_initializer": "zeros"}, "VTrace.kernel_initializer must be one of glorot_uniform, .*, got 'zeros'"),
        ({"channels": ()}, r"VTrace.channels must be positive integers, got \(\)"),
        ({"channels": (16, 2.0)}, r"VTrace.channels must be positive integers, got \(16, 2.0\)"),
        ({"channels": (16, True)}, r"VTrace.channels must be positive integers, got \(16, True\)"),
        ({"discount": 1.5}, r"VTrace.discount must be in \[0, 1\], got 1.5"),
        ({"target_entropy": 1.0, "entropy_cost": 0.0}, "needs a positive VTrace.entropy_cost"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        VTrace(**settings)


def test_a_role_moves_only_its_own_network():
    agent = BY_ROLE.build(ROLES, num_training_envs=2, seed=1)
    unroll = acted_unroll(agent, batch=3)
    role = tf.one_hot(tf.ones([BY_ROLE.unroll_length + 1, 3], tf.int32), 2, True, False, dtype=tf.bool)
    unroll.env_output.observation["role"] = role
    with tf.GradientTape(persistent=True) as tape:
        losses = agent.loss(unroll, tf.ones([3])).losses
    assert list(losses) == list(agent.groups) == ["role_0", "role_1"], "an optimizer for each network"
    still, moved = (
        [np.any(tape.gradient(losses[name], weight.value)) for weight in group.variables]
        for name, group in agent.groups.items()
    )
    assert len(still) == len(moved) > 4
    assert not any(still)
    assert all(moved)


def test_a_network_per_role_needs_roles():
    with pytest.raises(CannotAct, match="a network per role needs observations with a one-hot code 'role', got"):
        BY_ROLE.build(EnvSpec(NUMBERS, CHOICES), num_training_envs=2, seed=1)
