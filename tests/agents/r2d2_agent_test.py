"""The R2D2 agent: acting, burn-in, target network and priorities, against its loss and against twins of itself."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2.agent import Behaviour
from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.r2d2.loss import priorities_of, r2d2_loss, td_errors
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, CannotAct, DiscreteSpec, EnvSpec
from tests.support.experience import (
    CHOICES,
    FORCES,
    NUMBERS,
    SEVERAL,
    acted_unroll,
    assert_matches_step_spec,
    move,
    random_output,
)

A, B = 3, 4
SPEC = EnvSpec(ArraySpec((4, 4, 1), "uint8"), DiscreteSpec(A))
SMALL = R2D2(
    torso="mlp",
    hidden=8,
    core_units=6,
    head_hidden=7,
    frame_stack=2,
    burn_in=3,
    unroll_length=5,
    discount=0.9,
    n_steps=2,
    target_update_period=3,
    epsilon_base=1.0,  # training environments take random actions
)
VARIANTS = [
    ({}, SPEC),
    ({"core": "none", "burn_in": 0}, SPEC),
    ({"torso": "deep", "unroll_length": 1, "frame_stack": 1, "previous_step_inputs": False}, SPEC),
    ({"dtype": "mixed_bfloat16"}, SPEC),
    ({"core": "none", "mlp_layers": 2}, EnvSpec(NUMBERS, DiscreteSpec(A))),
    ({}, EnvSpec(SEVERAL, DiscreteSpec(A))),
]
WEIGHTS = np.array([1.0, 0.3, 0.5, 0.8], np.float32)
"""Importance weights of B sequences."""


def build(config=SMALL, seed=1, apart=False, spec=SPEC):
    """An agent that has learned something: its Q-values differ by about 1, and its networks are equal or `apart`."""
    agent = config.build(spec, num_training_envs=B, seed=seed)
    move(agent, seed)
    agent.after_update(config.target_update_period)
    if apart:
        move(agent, seed + 1)
    return agent


def values(variables):
    return [np.array(variable.numpy()) for variable in variables]


def target_weights(agent):
    """The target network's variables, which follow the online network's."""
    return agent.variables[len(agent.model.variables) :]


def target_model(agent, config):
    """Another model with the weights of the target network."""
    model = config.build(SPEC, num_training_envs=B, seed=5).model
    for variable, value in zip(model.variables, values(target_weights(agent)), strict=True):
        variable.assign(value)
    return model


def without_what_is_large(unroll):
    return unroll._replace(initial_state=(), env_output=unroll.env_output._replace(observation=()))


def after_burn_in(config, nest):
    return tf.nest.map_structure(lambda x: np.asarray(x)[config.burn_in :], nest)


def pick(q, action):
    return np.take_along_axis(np.asarray(q), np.asarray(action)[..., None], axis=-1)[..., 0]


def q_of(model, unroll):
    """Q [L, B, A], the model run over all steps at once from the stored state."""
    return model(unroll.prev_action, unroll.env_output, unroll.initial_state)[0].numpy()


def gradients_of_loss(agent, unroll):
    with tf.GradientTape() as tape:
        loss = agent.loss(unroll, tf.constant(WEIGHTS)).losses["model"]
    return tape.gradient(loss, [weight.value for weight in agent.trainable_variables])


@pytest.mark.parametrize(("changed", "spec"), VARIANTS, ids=str)
def test_acts_and_learns_from_the_same_q(changed, spec):
    config = dataclasses.replace(SMALL, **changed)
    agent = build(config, spec=spec)
    unroll = acted_unroll(agent, B)
    assert unroll.action.shape == (config.burn_in + config.unroll_length + 1, B)
    assert_matches_step_spec(agent, unroll)
    if not changed:
        assert np.any(unroll.env_output.done[: config.burn_in]), "an episode begins in the burn-in"
        assert np.any(unroll.env_output.done[config.burn_in + 1 :])

    q, acted = q_of(agent.model, unroll), unroll.behaviour
    assert acted.max_q.numpy().std() > 0.02
    atol = 0.05 * acted.max_q.numpy().std() if config.dtype == "mixed_bfloat16" else 1e-5
    np.testing.assert_allclose(pick(q, unroll.action), acted.q_of_action, rtol=0, atol=atol)
    np.testing.assert_allclose(q.max(-1), acted.max_q, rtol=0, atol=atol)

    output = agent.loss(unroll, tf.constant(WEIGHTS))
    assert output.losses.keys() == agent.groups.keys() == {"model"}
    assert output.losses["model"].shape == ()
    assert output.priorities.shape == (B,)
    tensors = [*output.losses.values(), *output.metrics.values(), *output.maxima.values(), output.priorities]
    assert {tensor.dtype for tensor in tensors} == {tf.float32}
    for gradient in gradients_of_loss(agent, unroll):
        assert gradient is not None, "every weight takes part in the loss"
        assert np.isfinite(gradient).all()


CHANGED = [
    {},
    {"burn_in": 0, "n_steps": 1},
    {"core": "none", "value_rescaling": False, "max_priority_weight": 0.2, "max_abs_reward": 0.3},
]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_the_loss_is_that_of_the_steps_after_the_burn_in(changed):
    """Both networks are brought up to date by the burn-in, each with its own weights."""
    config = dataclasses.replace(SMALL, **changed)
    agent = build(config, apart=True)
    unroll = acted_unroll(agent, B)
    networks = agent.model, target_model(agent, config)
    online, target = (after_burn_in(config, q_of(network, unroll)) for network in networks)
    assert np.any(online.argmax(-1)[1:] != target.argmax(-1)[1:]), "the networks prefer different actions"
    action, env_output = after_burn_in(config, (unroll.action, unroll.env_output))
    expected = r2d2_loss(
        online_q=online,
        target_q=target,
        action=action,
        env_output=env_output,
        importance_weights=WEIGHTS,
        config=config,
    )
    assert np.abs(expected.td_errors).max() > 0.1
    output = agent.loss(unroll, tf.constant(WEIGHTS))
    np.testing.assert_allclose(output.losses["model"], expected.total, rtol=1e-4)
    priorities = priorities_of(expected.td_errors, env_output, config)
    np.testing.assert_allclose(output.priorities, priorities, rtol=1e-4)
    metrics = {name: float(value) for name, value in (output.metrics | output.maxima).items()}
    assert metrics == pytest.approx(
        {
            "loss/total": float(expected.total),
            "q/abs_td_error": np.abs(expected.td_errors).mean(),
            "q/value": np.mean(expected.values),
            "q/max_value": np.max(expected.values),
        },
        rel=1e-3,
    )


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_weights_learn_nothing_from_the_burn_in(core):
    """The gradient is that of an agent without burn-in that starts from the state at its end."""
    config = dataclasses.replace(SMALL, core=core)
    agent, twin = build(config), build(dataclasses.replace(config, burn_in=0))
    for mine, others in zip(values(agent.variables), values(twin.variables), strict=True):
        np.testing.assert_array_equal(mine, others)
    unroll = acted_unroll(agent, B)
    state = unroll.initial_state
    for t in range(config.burn_in):
        output = tf.nest.map_structure(lambda x, t=t: x[t], unroll.env_output)
        state = agent.act(unroll.prev_action[t], output, state, tf.range(B), tf.constant([0, t])).state
    learned = tf.nest.map_structure(lambda x: x[config.burn_in :], unroll._replace(initial_state=()))
    expected = gradients_of_loss(twin, learned._replace(initial_state=state))
    through = gradients_of_loss(
        build(dataclasses.replace(config, burn_in=0, unroll_length=config.burn_in + config.unroll_length)), unroll
    )
    for a, e, t in zip(gradients_of_loss(agent, unroll), expected, through, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)
        assert np.abs(t - e).max() > 1e-3, "to learn from those steps, too, would be seen"


@pytest.mark.parametrize("burn_in", [0, 3])
def test_gradient_stops_at_the_end_of_the_burn_in_and_at_the_target_network(burn_in):
    agent = build(dataclasses.replace(SMALL, burn_in=burn_in), apart=True)
    unroll = acted_unroll(agent, B)
    assert not np.any(unroll.env_output.done[:, 0])
    core, reward = unroll.initial_state.core, unroll.env_output.reward
    target = [variable.value for variable in target_weights(agent)]
    with tf.GradientTape() as tape:
        tape.watch([core, reward, *target])
        loss = agent.loss(unroll, tf.constant(WEIGHTS)).losses["model"]
    by_core, by_reward, by_target = tape.gradient(loss, [core, reward, target])
    assert by_target == [None] * len(target)
    if burn_in:
        assert all(gradient is None or not np.any(gradient) for gradient in by_core)
    else:
        assert all(np.all(gradient[0]) for gradient in by_core), "the counterpart: what is not stopped is seen"
    # The previous reward is an input of the network; the last step only bootstraps.
    used = np.any(np.asarray(by_reward), axis=1)
    assert used.tolist() == [False] * burn_in + [True] * SMALL.unroll_length + [False]


def test_a_checkpoint_holds_both_networks_and_the_optimizer_gets_one():
    agent = build(apart=True)
    online, target = agent.model.variables, target_weights(agent)
    assert len(online) == len(target) == 2 + 3 + 7
    assert list(map(id, agent.trainable_variables)) == list(map(id, online))
    assert list(map(id, agent.variables)) == list(map(id, [*online, *target]))
    assert len(set(map(id, agent.variables))) == len(agent.variables)
    assert [(v.name, v.shape) for v in online] == [(v.name, v.shape) for v in target]


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_the_target_network_follows_by_the_settings(rate):
    agent = dataclasses.replace(SMALL, target_update_rate=rate).build(SPEC, num_training_envs=B, seed=1)
    expected = values(agent.model.variables)
    for update in range(1, 2 * SMALL.target_update_period + 2):
        move(agent, seed=update)
        agent.after_update(update)
        if update % SMALL.target_update_period == 0:
            online = values(agent.model.variables)
            expected = [old + rate * (new - old) for old, new in zip(expected, online, strict=True)]
        for actual, value in zip(values(target_weights(agent)), expected, strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("changed", CHANGED[:2], ids=str)
def test_initial_priorities_are_computed_from_the_values_recorded_while_acting(changed):
    config = dataclasses.replace(SMALL, **changed)
    agent, rng = build(config), np.random.default_rng(0)
    unroll = acted_unroll(agent, B)
    acted = Behaviour(*rng.normal(size=(2, *unroll.action.shape)).astype(np.float32))  # of no network
    stored = unroll._replace(behaviour=Behaviour(*map(tf.constant, acted)))
    learned, env_output = after_burn_in(config, (acted, unroll.env_output))
    errors = td_errors(learned.q_of_action, learned.max_q, env_output, config)
    priorities = agent.initial_priorities(without_what_is_large(stored))
    assert priorities.dtype == tf.float32
    assert priorities.shape == (B,)
    np.testing.assert_allclose(priorities, priorities_of(errors, env_output, config), rtol=1e-4)
    # Before any update the loss gives the same priorities.
    initial = agent.initial_priorities(without_what_is_large(unroll))
    np.testing.assert_allclose(initial, agent.loss(unroll, tf.ones([B])).priorities, rtol=1e-4)


def act_once(agent, env_ids, seed=0):
    """One step in a fresh episode of as many different situations; actions and behaviour."""
    rng = np.random.default_rng(seed)
    count = len(env_ids)
    answer = agent.act(
        tf.constant(rng.integers(0, A, count), tf.int32),
        random_output(rng, SPEC, (count,)),
        agent.initial_state(count),
        tf.constant(env_ids, tf.int32),
        tf.constant([seed, 3]),
    )
    return answer.action.numpy(), answer.behaviour


def greedy(behaviour):
    return np.asarray(behaviour.q_of_action) == np.asarray(behaviour.max_q)


def within_five_sigma(which, probability):
    return abs(np.mean(which) - probability) < 5 * np.sqrt(probability * (1 - probability) / len(which))


def test_training_environments_explore_by_the_ladder_and_all_others_by_eval_epsilon():
    """Ids from `num_training_envs` on are evaluation environments and padding."""
    config = dataclasses.replace(SMALL, epsilon_base=0.5, epsilon_low=1.0, epsilon_high=4.0, eval_epsilon=0.75)
    env_ids = np.tile([0, 1, 2, 3, B, 100 * B], 1500)
    actions, behaviour = act_once(build(config), env_ids)
    for env_id, epsilon in zip(env_ids[:6], [0.5, 0.25, 0.125, 0.0625, 0.75, 0.75], strict=True):
        assert within_five_sigma(~greedy(behaviour)[env_ids == env_id], epsilon * (A - 1) / A)
    explored = actions[~greedy(behaviour)]
    assert set(explored) == set(range(A))
    actions, behaviour = act_once(build(dataclasses.replace(config, epsilon_base=0.0)), env_ids)
    assert np.all(greedy(behaviour)[env_ids < B])


def test_the_seeds_draw_weights_and_actions():
    def weights(seed):
        return values(SMALL.build(SPEC, num_training_envs=B, seed=seed).trainable_variables)

    kernels = 0
    for first, again, other in zip(weights(1), weights(1), weights(2), strict=True):
        np.testing.assert_array_equal(first, again)
        if first.ndim > 1:  # biases are not random
            kernels += 1
            assert not np.any(first == other)
    assert kernels == 1 + 2 + 4
    agent = build()
    first, again, other = (act_once(agent, np.zeros(20, np.int32), seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert len(set(first)) == A
    assert np.any(first != other)


def test_q_starts_near_zero():
    """So that at first no action is preferred; but not at zero, where the torso would learn nothing."""
    agent = SMALL.build(SPEC, num_training_envs=B, seed=1)
    unroll = acted_unroll(agent, B)
    q = q_of(agent.model, unroll)
    assert np.abs(q).max() < 0.05
    assert np.all(np.ptp(q, axis=-1) > 0)
    assert all(np.any(gradient) for gradient in gradients_of_loss(agent, unroll))


@pytest.mark.parametrize("action", [CHOICES, FORCES], ids=str)
def test_environments_it_cannot_act_in_are_named(action):
    with pytest.raises(CannotAct, match="^R2D2 needs discrete actions, got "):
        SMALL.build(EnvSpec(NUMBERS, action), num_training_envs=1, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unroll_length": 0}, "R2D2.unroll_length must be at least 1, got 0"),
        ({"eval_epsilon": -0.1}, r"R2D2.eval_epsilon must be in \[0, 1\], got -0.1"),
        ({"target_update_rate": 0.0}, r"R2D2.target_update_rate must be in \[1e-06, 1\], got 0.0"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        R2D2(**settings)


def test_updates_on_one_batch_reduce_its_loss():
    agent = SMALL.build(SPEC, num_training_envs=B, seed=1)
    unroll = acted_unroll(agent, B)
    target = values(target_weights(agent))
    train_step = TrainStep(agent, Optimizer(learning_rate=0.01))
    priorities = agent.loss(unroll, tf.constant(WEIGHTS)).priorities
    updates = [train_step(unroll, 0.0, WEIGHTS) for _ in range(40)]
    np.testing.assert_allclose(updates[0].priorities, priorities, rtol=1e-4)
    losses = [update.metrics["loss/total"] for update in updates]
    assert losses[-1] < losses[0] / 2
    assert np.all(updates[-1].priorities < updates[0].priorities)
    for before, now in zip(target, values(target_weights(agent)), strict=True):
        np.testing.assert_array_equal(before, now)
