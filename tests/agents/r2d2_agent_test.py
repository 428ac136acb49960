import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.config import CannotAct
from seed_rl.agents.r2d2.agent import Behaviour
from seed_rl.agents.r2d2.config import R2D2
from seed_rl.experiment import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput, Unroll

FRAME, A = (4, 4, 1), 3
SPEC = EnvSpec(ArraySpec(FRAME, "uint8"), DiscreteSpec(A))
NUMBERS = EnvSpec(ArraySpec((5,), "float32"), DiscreteSpec(A))
SEVERAL = EnvSpec(
    {
        "right": ArraySpec((3, 5, 2), "uint8"),
        "left": ArraySpec(FRAME, "uint8"),
        "board": ArraySpec((4, 3), "uint16"),
        "speed": ArraySpec((), "float64"),
        "cells": ArraySpec((2, 3), "bool"),
    },
    DiscreteSpec(A),
)
SMALL = R2D2(
    torso="mlp",
    hidden=8,
    lstm_units=6,
    head_hidden=7,
    frame_stack=2,
    burn_in=3,
    unroll_length=5,
    discount=0.9,
    n_steps=2,
    target_update_period=3,
    epsilon_base=1.0,  # training environments take random actions
)
B = 4
VARIANTS = [
    SMALL,
    dataclasses.replace(SMALL, burn_in=0),
    dataclasses.replace(SMALL, lstm_units=0),
    dataclasses.replace(SMALL, frame_stack=1, previous_step_inputs=False),
    dataclasses.replace(SMALL, torso="deep", unroll_length=1),
    dataclasses.replace(SMALL, dtype="mixed_bfloat16"),
    dataclasses.replace(SMALL, dtype="mixed_bfloat16", lstm_units=0, burn_in=0),
]
WEIGHTS = np.array([1.0, 0.3, 0.5, 0.8], np.float32)
"""Importance weights of B sequences."""


def name_of(config):
    """What is different from `SMALL`."""
    fields = dataclasses.asdict(SMALL)
    return str({k: v for k, v in dataclasses.asdict(config).items() if v != fields[k]})


def build(config=SMALL, seed=1, apart=False, spec=SPEC):
    """An agent that has learned something: its Q-values differ by about 1, and its networks are equal or `apart`."""
    agent = config.build(spec, num_training_envs=B, seed=seed)
    move(agent, seed)
    agent.after_update(config.target_update_period)
    if apart:
        move(agent, seed + 1)
    return agent


def move(agent, seed):
    """Changes every weight of the online network."""
    rng = np.random.default_rng(seed)
    for weight in agent.trainable_variables:
        weight.assign_add(rng.normal(scale=0.5, size=weight.shape).astype(np.float32))


def values(variables):
    return [np.array(variable.numpy()) for variable in variables]


def random_tensor(rng, spec, batch):
    shape = (batch, *spec.shape)
    if spec.dtype == "bool":
        return tf.constant(rng.random(shape) < 0.5)
    if spec.dtype.startswith("float"):
        return tf.constant(rng.normal(size=shape), spec.dtype)
    return tf.constant(rng.integers(0, np.iinfo(spec.dtype).max, shape, endpoint=True), spec.dtype)


def random_output(rng, batch, done=0.35, spec=SPEC):
    """What environments might say. The first one's episode goes on for ever."""
    begins = rng.random(batch) < done
    begins[0] = False
    reward = tf.constant(rng.normal(size=batch), tf.float32)
    tensors = {name: random_tensor(rng, tensor, batch) for name, tensor in spec.observation_tensors()}
    return EnvOutput(reward, tf.constant(begins), tensors.get("", tensors))


def act_unroll(agent, seed=3, batch=B, spec=SPEC):
    """An unroll in mid-run that the agent acted itself, step by step."""
    rng = np.random.default_rng(seed)
    state, prev_action, steps = agent.initial_state(batch), tf.zeros([batch], tf.int32), []
    for t in range(2 + agent.length):
        if t == 2:
            initial = state
        output = random_output(rng, batch, spec=spec)
        answer = agent.act(prev_action, output, state, tf.range(batch), tf.constant([seed, t]))
        steps.append((prev_action, output, answer.action, answer.behaviour))
        prev_action, state = answer.action, answer.state
    return Unroll(initial, *tf.nest.map_structure(lambda *fields: tf.stack(fields), *steps[2:]))


def without_what_is_large(unroll):
    return unroll._replace(initial_state=(), env_output=unroll.env_output._replace(observation=()))


def rescale(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x


def unscale(x):
    return np.sign(x) * (((np.sqrt(1 + 4e-3 * (abs(x) + 1 + 1e-3)) - 1) / 2e-3) ** 2 - 1)


def literal_td_errors(config, q_of_action, bootstrap, env_output):
    """From fields [T + 1, B] of the steps after the burn-in, in float64; [T, B]."""
    reward, done = np.asarray(env_output.reward, np.float64), np.asarray(env_output.done)
    length, batch = config.unroll_length, reward.shape[1]
    assert reward.shape == done.shape == q_of_action.shape == bootstrap.shape == (length + 1, batch)
    errors = np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        end = min(t + config.n_steps, length)
        target, discount = 0.0, 1.0
        for k in range(t + 1, end + 1):
            bound = config.max_abs_reward or np.inf
            target += discount * min(max(reward[k, b], -bound), bound)
            discount *= 0.0 if done[k, b] else config.discount
        value = np.float64(bootstrap[end, b])
        target += discount * (unscale(value) if config.value_rescaling else value)
        errors[t, b] = (rescale(target) if config.value_rescaling else target) - q_of_action[t, b]
    return errors


def literal_priorities(config, errors):
    eta = config.max_priority_weight
    return eta * np.abs(errors).max(axis=0) + (1 - eta) * np.abs(errors).mean(axis=0)


def after_burn_in(config, nest):
    return tf.nest.map_structure(lambda x: np.asarray(x)[config.burn_in :], nest)


def pick(q, action):
    return np.take_along_axis(np.asarray(q), np.asarray(action)[..., None], axis=-1)[..., 0]


def literal_loss(agent, config, unroll, weights):
    """Loss and TD errors, with each network run over all steps at once from the stored state."""
    online, target = (
        after_burn_in(config, network(unroll.prev_action, unroll.env_output, unroll.initial_state)[0])
        for network in (agent._online, agent._target)
    )
    action, env_output = after_burn_in(config, (unroll.action, unroll.env_output))
    errors = literal_td_errors(config, pick(online, action), pick(target, online.argmax(-1)), env_output)
    return np.mean(weights * 0.5 * np.sum(errors**2, axis=0)), errors


def gradients_of_loss(agent, unroll):
    with tf.GradientTape() as tape:
        output = agent.loss(unroll, tf.constant(WEIGHTS))
    return tape.gradient(output.loss, [weight.value for weight in agent.trainable_variables])


def variants_and_others(function):
    """With `config` and `spec`: the variants on frames, and small networks on other observations."""
    cases = [pytest.param(config, SPEC, id=name_of(config)) for config in VARIANTS]
    cases += [
        pytest.param(SMALL, NUMBERS, id="numbers"),
        pytest.param(dataclasses.replace(SMALL, lstm_units=0, mlp_layers=2), NUMBERS, id="numbers, feed-forward"),
        pytest.param(SMALL, SEVERAL, id="several"),
        pytest.param(dataclasses.replace(SMALL, torso="deep", channels=(4, 6)), SEVERAL, id="several, deep"),
    ]
    return pytest.mark.parametrize(("config", "spec"), cases)(function)


@variants_and_others
def test_acts_and_learns(config, spec):
    agent = build(config, spec=spec)
    unroll = act_unroll(agent, spec=spec)
    assert unroll.action.dtype == tf.int32
    assert unroll.action.shape == (config.burn_in + config.unroll_length + 1, B)
    for field, spec in zip(unroll.behaviour, agent.behaviour_spec, strict=True):
        assert field.dtype == spec.dtype == tf.float32
        assert field.shape[2:] == spec.shape
    output = agent.loss(unroll, tf.constant(WEIGHTS))
    assert output.loss.dtype == output.priorities.dtype == tf.float32
    assert output.loss.shape == ()
    assert output.priorities.shape == (B,)
    assert {metric.dtype for metric in output.metrics.values()} == {tf.float32}
    gradients = gradients_of_loss(agent, unroll)
    assert all(gradient is not None for gradient in gradients), "every weight takes part in the loss"
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@variants_and_others
def test_learner_and_actor_see_the_same_q(config, spec):
    agent = build(config, spec=spec)
    unroll = act_unroll(agent, spec=spec)
    assert np.any(unroll.env_output.done[: config.burn_in]) == bool(config.burn_in), "an episode begins in the burn-in"
    assert np.any(unroll.env_output.done[config.burn_in :])
    q = agent._unrolled_q(agent._online, unroll)
    assert q.dtype == tf.float32
    assert q.shape == (config.unroll_length + 1, B, A)
    action, acted = after_burn_in(config, (unroll.action, unroll.behaviour))
    assert acted.max_q.std() > 0.02
    atol = 0.05 * acted.max_q.std() if config.dtype == "mixed_bfloat16" else 1e-5
    np.testing.assert_allclose(pick(q, action), acted.q_of_action, rtol=0, atol=atol)
    np.testing.assert_allclose(np.max(q, axis=-1), acted.max_q, rtol=0, atol=atol)
    np.testing.assert_array_equal(agent._unrolled_q(agent._target, unroll), q)


@pytest.mark.parametrize("burn_in", [0, 1, 3])
def test_the_stored_state_is_the_one_before_the_first_step(burn_in):
    """Another one would give other values, of the environment whose episode does not end."""
    agent = build(dataclasses.replace(SMALL, burn_in=burn_in))
    unroll = act_unroll(agent)
    assert not np.any(unroll.env_output.done[:, 0])
    q = agent._unrolled_q(agent._online, unroll)
    blank = agent._unrolled_q(agent._online, unroll._replace(initial_state=agent.initial_state(B)))
    assert np.abs(q[0, 0] - blank[0, 0]).max() > 1e-3


CHANGED = [
    {},
    {"burn_in": 0},
    {"unroll_length": 1},
    {"n_steps": 1},
    {"n_steps": 9},
    {"discount": 0.5},
    {"max_abs_reward": 0.3},
    {"value_rescaling": False},
    {"max_priority_weight": 0.2},
    {"lstm_units": 0},
]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_loss_and_priorities_are_those_of_the_formulas(changed):
    """Both networks are brought up to date by the burn-in, each with its own weights."""
    config = dataclasses.replace(SMALL, **changed)
    agent = build(config, apart=True)
    unroll = act_unroll(agent)
    online, target = (agent._unrolled_q(network, unroll).numpy() for network in (agent._online, agent._target))
    assert np.any(online.argmax(-1)[1:] != target.argmax(-1)[1:]), "the networks prefer different actions"
    loss, errors = literal_loss(agent, config, unroll, WEIGHTS)
    assert np.abs(errors).max() > 0.1
    output = agent.loss(unroll, tf.constant(WEIGHTS))
    np.testing.assert_allclose(output.loss, loss, rtol=1e-4)
    np.testing.assert_allclose(output.priorities, literal_priorities(config, errors), rtol=1e-4)


def test_metrics_of_the_loss():
    agent = build(apart=True)
    unroll = act_unroll(agent)
    output = agent.loss(unroll, tf.constant(WEIGHTS))
    loss, errors = literal_loss(agent, SMALL, unroll, WEIGHTS)
    taken = pick(agent._unrolled_q(agent._online, unroll), unroll.action[SMALL.burn_in :])[:-1]
    returns = unscale(taken.astype(np.float64))  # in units of reward
    assert np.abs(returns - taken).max() > 0.1
    expected = {
        "loss/total": loss,
        "q/abs_td_error": np.abs(errors).mean(),
        "q/value": returns.mean(),
        "q/max_value": returns.max(),
    }
    assert {name: float(value) for name, value in output.metrics.items()} == pytest.approx(expected, rel=1e-4)


def test_a_loss_without_importance_weights_is_refused():
    agent = build()
    with pytest.raises(ValueError, match="R2D2 learns from a replay: importance_weights must be given"):
        agent.loss(act_unroll(agent))


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_weights_learn_nothing_from_the_burn_in(lstm_units):
    """The gradient is that of an agent without burn-in that starts from the state at its end."""
    config = dataclasses.replace(SMALL, lstm_units=lstm_units)
    agent, twin = build(config), build(dataclasses.replace(config, burn_in=0))
    for mine, others in zip(values(agent.variables), values(twin.variables), strict=True):
        np.testing.assert_array_equal(mine, others)
    unroll = act_unroll(agent)
    state = unroll.initial_state
    for t in range(config.burn_in):
        output = tf.nest.map_structure(lambda x, t=t: x[t], unroll.env_output)
        state = agent.act(unroll.prev_action[t], output, state, tf.range(B), tf.constant([0, t])).state
    learned = tf.nest.map_structure(lambda x: x[config.burn_in :], unroll._replace(initial_state=()))
    expected = gradients_of_loss(twin, learned._replace(initial_state=state))
    through = gradients_of_loss(
        build(dataclasses.replace(config, burn_in=0, unroll_length=config.burn_in + config.unroll_length)), unroll
    )
    actual = gradients_of_loss(agent, unroll)
    assert len(actual) == len(expected) == len(through)
    for a, e, t in zip(actual, expected, through, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)
        assert np.abs(t - e).max() > 1e-3, "to learn from those steps, too, would be seen"


def test_gradient_stops_at_the_end_of_the_burn_in():
    agent = build(apart=True)
    unroll = act_unroll(agent)
    unroll = unroll._replace(env_output=unroll.env_output._replace(done=tf.zeros_like(unroll.env_output.done)))
    core, reward = unroll.initial_state.core, unroll.env_output.reward
    for network in (agent._online, agent._target):
        with tf.GradientTape() as tape:
            tape.watch([core, reward])
            q = tf.reduce_sum(tf.square(agent._unrolled_q(network, unroll)))
        by_core, by_reward = tape.gradient(q, [core, reward])
        assert all(gradient is None or not np.any(gradient) for gradient in by_core)
        by_reward = np.asarray(by_reward)
        assert by_reward.shape == (SMALL.burn_in + SMALL.unroll_length + 1, B)
        assert not np.any(by_reward[: SMALL.burn_in])
        assert np.all(by_reward[SMALL.burn_in :])


def test_without_burn_in_there_is_a_gradient_to_the_first_step():
    """The counterpart: what is not stopped is seen."""
    agent = build(dataclasses.replace(SMALL, burn_in=0))
    unroll = act_unroll(agent)
    core, reward = unroll.initial_state.core, unroll.env_output.reward
    with tf.GradientTape() as tape:
        tape.watch([core, reward])
        loss = agent.loss(unroll, tf.constant(WEIGHTS)).loss
    by_core, by_reward = tape.gradient(loss, [core, reward])
    assert not np.any(unroll.env_output.done[:, 0])
    assert all(np.all(gradient[0]) for gradient in by_core)
    by_reward = np.asarray(by_reward)
    assert np.all(by_reward[:-1])
    assert not np.any(by_reward[-1]), "the last step only bootstraps"


def test_no_gradient_reaches_the_target_network():
    agent = build(apart=True)
    unroll = act_unroll(agent)
    target = [variable.value for variable in agent._target.variables]
    with tf.GradientTape() as tape:
        tape.watch(target)
        loss = agent.loss(unroll, tf.constant(WEIGHTS)).loss
    assert tape.gradient(loss, target) == [None] * len(target)


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_a_checkpoint_holds_both_networks_and_the_optimizer_gets_one(lstm_units):
    agent = build(dataclasses.replace(SMALL, lstm_units=lstm_units), apart=True)
    online, target = list(agent._online.variables), list(agent._target.variables)
    assert len(online) == len(target) == 2 + 3 * bool(lstm_units) + 7
    assert list(map(id, agent.trainable_variables)) == list(map(id, online))
    assert list(map(id, agent.variables)) == list(map(id, online + target))
    assert len(set(map(id, agent.variables))) == len(agent.variables)
    assert [(v.name, v.shape) for v in online] == [(v.name, v.shape) for v in target]


def test_the_target_network_follows_in_steps():
    agent = SMALL.build(SPEC, num_training_envs=B, seed=1)

    def same(a, b):
        assert len(a) == len(b) > 0
        return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

    assert same(values(agent._target.variables), values(agent._online.variables)), "at first they are equal"
    copies = []
    for update in range(1, 2 * SMALL.target_update_period + 2):
        before = values(agent._target.variables)
        move(agent, seed=update)
        online = values(agent._online.variables)
        assert same(values(agent._target.variables), before), "it does not share the online network's weights"
        agent.after_update(update)
        assert same(values(agent._online.variables), online)
        now = values(agent._target.variables)
        assert same(now, online) != same(now, before)
        if same(now, online):
            copies.append(update)
    assert copies == [3, 6]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_initial_priorities_are_computed_from_the_values_acted_on(changed):
    config = dataclasses.replace(SMALL, **changed)
    agent, rng = build(config), np.random.default_rng(0)
    unroll = act_unroll(agent)
    acted = Behaviour(*rng.normal(size=(2, *unroll.action.shape)))  # not what the networks would say
    stored = unroll._replace(behaviour=Behaviour(*(tf.constant(x, tf.float32) for x in acted)))
    learned, env_output = after_burn_in(config, (acted, unroll.env_output))
    errors = literal_td_errors(config, learned.q_of_action, learned.max_q, env_output)
    priorities = agent.initial_priorities(without_what_is_large(stored))
    assert priorities.dtype == tf.float32
    assert priorities.shape == (B,)
    np.testing.assert_allclose(priorities, literal_priorities(config, errors), rtol=1e-4)


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_before_any_update_initial_priorities_are_those_of_the_loss(changed):
    agent = build(dataclasses.replace(SMALL, **changed))
    unroll = act_unroll(agent)
    initial = agent.initial_priorities(without_what_is_large(unroll))
    np.testing.assert_allclose(initial, agent.loss(unroll, tf.ones([B])).priorities, rtol=1e-4)
    move(agent, seed=9)
    moved = agent.loss(unroll, tf.ones([B])).priorities
    assert np.abs(moved - initial).max() > 0.01
    np.testing.assert_array_equal(agent.initial_priorities(without_what_is_large(unroll)), initial)


def act_once(agent, env_ids, seed=0):
    """One step in a fresh episode of as many different situations; actions and behaviour."""
    rng = np.random.default_rng(seed)
    count = len(env_ids)
    answer = agent.act(
        tf.constant(rng.integers(0, A, count), tf.int32),
        random_output(rng, count),
        agent.initial_state(count),
        tf.constant(env_ids, tf.int32),
        tf.constant([seed, 3]),
    )
    return answer.action.numpy(), answer.behaviour


def greedy(behaviour):
    return np.asarray(behaviour.q_of_action) == np.asarray(behaviour.max_q)


def within_five_sigma(which, probability):
    return abs(np.mean(which) - probability) < 5 * np.sqrt(probability * (1 - probability) / len(which))


def test_the_value_acted_on_is_that_of_the_action():
    agent = build()
    unroll = act_unroll(agent, seed=2)
    q, _ = agent._online(unroll.prev_action, unroll.env_output, unroll.initial_state)
    np.testing.assert_allclose(unroll.behaviour.q_of_action, pick(q, unroll.action), rtol=0, atol=1e-5)
    assert 0 < np.mean(greedy(unroll.behaviour)) < 1
    np.testing.assert_array_equal(greedy(unroll.behaviour), np.argmax(q, axis=-1) == unroll.action)


@pytest.mark.parametrize("training_explores", [False, True])
def test_training_explores_by_the_ladder_and_all_else_by_eval_epsilon(training_explores):
    """One always, the other never; ids from `num_training_envs` on are evaluation environments and padding."""
    config = dataclasses.replace(
        SMALL, epsilon_base=float(training_explores), eval_epsilon=float(not training_explores)
    )
    agent = build(config)
    env_ids = np.tile([B, 0, B - 1, 1, B + 1, 2, 100 * B], 400)
    actions, behaviour = act_once(agent, env_ids)
    explores = (env_ids < B) == training_explores
    assert np.all(greedy(behaviour)[~explores])
    assert within_five_sigma(greedy(behaviour)[explores], 1 / A)
    for action in range(A):
        assert within_five_sigma(actions[explores] == action, 1 / A)


def test_each_training_environment_has_its_own_epsilon():
    config = dataclasses.replace(SMALL, epsilon_base=0.5, epsilon_low=1.0, epsilon_high=4.0, eval_epsilon=0.75)
    agent = build(config)
    env_ids = np.tile(np.arange(B + 2), 1500)
    _, behaviour = act_once(agent, env_ids)
    for env_id, epsilon in enumerate([0.5, 0.25, 0.125, 0.0625, 0.75, 0.75]):
        assert within_five_sigma(~greedy(behaviour)[env_ids == env_id], epsilon * (A - 1) / A)


def test_the_seed_draws_weights():
    def weights(seed):
        return values(SMALL.build(SPEC, num_training_envs=B, seed=seed).trainable_variables)

    kernels = 0
    for first, again, other in zip(weights(1), weights(1), weights(2), strict=True):
        np.testing.assert_array_equal(first, again)
        if first.ndim > 1:  # biases are not random
            kernels += 1
            assert not np.any(first == other)
    assert kernels == 1 + 2 + 4


def test_the_seed_of_a_step_draws_its_actions():
    agent = build()
    first, again, other = (act_unroll(agent, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.action, again.action)
    state, output = agent.initial_state(B), random_output(np.random.default_rng(0), B)
    actions = [
        agent.act(tf.zeros([B], tf.int32), output, state, tf.range(B), tf.constant([0, t])).action for t in range(20)
    ]
    assert len({tuple(action.numpy()) for action in actions}) > 5
    assert np.any(first.action != other.action)


@pytest.mark.parametrize(
    "config",
    [SMALL, R2D2(torso="mlp", burn_in=0, unroll_length=2), dataclasses.replace(SMALL, dtype="mixed_bfloat16")],
    ids=name_of,
)
def test_q_starts_near_zero(config):
    """So that at first no action is preferred; but not at zero, where the torso would learn nothing."""
    agent = config.build(SPEC, num_training_envs=B, seed=1)
    rng = np.random.default_rng(0)
    outputs = tf.nest.map_structure(lambda *x: tf.stack(x), *[random_output(rng, 50) for _ in range(3)])
    q, _ = agent._online(tf.constant(rng.integers(0, A, (3, 50)), tf.int32), outputs, agent.initial_state(50))
    assert q.shape == (3, 50, A)
    assert np.abs(q).max() < 0.05
    assert np.all(np.ptp(q, axis=-1) > 0)
    assert all(np.any(gradient) for gradient in gradients_of_loss(agent, act_unroll(agent)))


PICTURE = ArraySpec((36, 36, 1), "uint8")
TAKES_PICTURES = r"the shallow torso takes pictures, uint8 .* or uint16 .* of bit planes, got "
NEEDS_DISCRETE = r"R2D2 learns the value of each of finitely many actions: it needs Discrete, got .*"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            EnvSpec(ArraySpec((4,), "float32"), DiscreteSpec(2)),
            TAKES_PICTURES + r"observation float32\[4\]; action Discrete\(2\); R2D2.torso = 'mlp' takes anything",
        ),
        (
            EnvSpec(ArraySpec((40, 40, 1), "float32"), DiscreteSpec(2)),
            TAKES_PICTURES + r"observation float32\[40, 40, 1",
        ),
        (
            EnvSpec({"a": ArraySpec((2,), "bool"), "b": ArraySpec((), "int64")}, DiscreteSpec(2)),
            TAKES_PICTURES + r"a bool\[2\], b int64\[\]; action",
        ),
        (
            EnvSpec(ArraySpec((36, 35, 1), "uint8"), DiscreteSpec(2)),
            r"the shallow torso needs frames of at least 36 x 36, got observation uint8\[36, 35, 1\]",
        ),
        (
            EnvSpec({"a": PICTURE, "b": ArraySpec((35, 36), "uint16")}, DiscreteSpec(2)),
            r"the shallow torso needs frames of at least 36 x 36, got a uint8\[36, 36, 1\], b uint16\[35, 36\]",
        ),
        (EnvSpec(PICTURE, MultiDiscreteSpec((2, 3))), NEEDS_DISCRETE + r"action MultiDiscrete\(2, 3\)"),
        (EnvSpec(PICTURE, ContinuousSpec((-1.0,), (2.5,))), NEEDS_DISCRETE + r"action Continuous\(-1\.\.2\.5\)"),
    ],
    ids=str,
)
def test_environments_it_cannot_act_in_are_named(spec, message):
    with pytest.raises(CannotAct, match=message):
        R2D2(torso="shallow").build(spec, num_training_envs=1, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "deeper"}, "R2D2.torso must be one of auto, shallow, deep, mlp, module:Class, got 'deeper'"),
        ({"channels": ()}, r"R2D2.channels must be positive integers, got \(\)"),
        ({"channels": (16, 0)}, r"R2D2.channels must be positive integers, got \(16, 0\)"),
        ({"channels": (16, True)}, r"R2D2.channels must be positive integers, got \(16, True\)"),
        ({"mlp_layers": 0}, "R2D2.mlp_layers must be at least 1, got 0"),
        ({"residual_blocks": 0}, "R2D2.residual_blocks must be at least 1, got 0"),
        ({"unroll_length": 0}, "R2D2.unroll_length must be at least 1, got 0"),
        ({"burn_in": -1}, "R2D2.burn_in must be at least 0, got -1"),
        ({"n_steps": 0}, "R2D2.n_steps must be at least 1, got 0"),
        ({"discount": 1.5}, r"R2D2.discount must be in \[0, 1\], got 1.5"),
        ({"eval_epsilon": -0.1}, r"R2D2.eval_epsilon must be in \[0, 1\], got -0.1"),
        ({"target_update_period": 0}, "R2D2.target_update_period must be at least 1, got 0"),
        ({"n_steps": 2.5}, "R2D2.n_steps must be int, got 2.5"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        R2D2(**settings)


def test_compiled_by_xla_it_acts_the_same():
    agent = build(dataclasses.replace(SMALL, epsilon_base=0.5))
    arguments = (
        tf.constant([0, 1, 2, 0]),
        random_output(np.random.default_rng(0), B),
        act_unroll(agent).initial_state,
        tf.range(B),
        tf.constant([1, 2]),
    )
    compiled, expected = tf.function(agent.act, jit_compile=True)(*arguments), agent.act(*arguments)
    np.testing.assert_array_equal(compiled.action, expected.action)
    for actual, value in zip(
        tf.nest.flatten([compiled.behaviour, compiled.state.core]),
        tf.nest.flatten([expected.behaviour, expected.state.core]),
        strict=True,
    ):
        np.testing.assert_allclose(actual, value, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(compiled.state.frames, expected.state.frames)


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_updates_on_one_batch_reduce_its_loss(lstm_units):
    config = dataclasses.replace(SMALL, lstm_units=lstm_units)
    agent = config.build(SPEC, num_training_envs=B, seed=1)
    unroll = act_unroll(agent)
    target = values(agent._target.variables)
    train_step = TrainStep(agent, Optimizer(learning_rate=0.01))
    priorities = agent.loss(unroll, tf.constant(WEIGHTS)).priorities
    updates = [train_step(unroll, 0.0, WEIGHTS) for _ in range(60)]
    np.testing.assert_allclose(updates[0].priorities, priorities, rtol=1e-4)
    losses = [update.metrics["loss/total"] for update in updates]
    assert losses[-1] < losses[0] / 2
    assert np.all(updates[-1].priorities < updates[0].priorities)
    for before, now in zip(target, values(agent._target.variables), strict=True):
        np.testing.assert_array_equal(before, now)
