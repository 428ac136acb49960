"""The R2D2 agent: acting, burn-in, target network and priorities, against its loss and a twin of itself."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.r2d2.agent import r2d2_loss
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from tests.support.experience import acted_unroll, assert_matches_step_spec, move, random_output

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
WEIGHTS = np.array([1.0, 0.3, 0.5, 0.8], np.float32)
"""Importance weights of B sequences."""


def build(config=SMALL, seed=1, apart=False):
    """An agent that has learned something: its Q-values differ by about 1, and its networks are equal or `apart`."""
    agent = config.build(SPEC, num_training_envs=B, seed=seed)
    move(agent, seed)
    agent.after_update(config.target_update_period)
    if apart:
        move(agent, seed + 1)
    return agent


def after_burn_in(nest):
    return tf.nest.map_structure(lambda x: np.asarray(x)[SMALL.burn_in :], nest)


def q_of(model, unroll):
    """Q [L, B, A], the model run over all steps at once from the stored state."""
    return model(unroll.prev_action, unroll.env_output, unroll.initial_state)[0].numpy()


def gradients_of_loss(agent, unroll):
    with tf.GradientTape() as tape:
        loss = agent.loss(unroll, tf.constant(WEIGHTS)).losses["model"]
    return tape.gradient(loss, [weight.value for weight in agent.model.trainable_variables])


@pytest.mark.parametrize(
    ("changed", "truncated"),
    [({}, True), ({"core": "none"}, True), ({"core": "none", "quantiles": 3, "observation_norm": True}, False)],
    ids=str,
)
def test_acts_and_learns_from_the_same_q_of_the_steps_after_the_burn_in(changed, truncated):
    """Both networks are brought up to date by the burn-in, each with its own weights, where they are recurrent; where
    they are not, only values that the targets need are computed."""
    config = dataclasses.replace(SMALL, **changed)
    agent = build(config, apart=True)
    unroll = acted_unroll(agent, B)
    assert unroll.action.shape == (config.burn_in + config.unroll_length + 1, B)
    assert_matches_step_spec(agent, unroll)
    q, acted = q_of(agent.model, unroll), unroll.behaviour
    q = q.mean(axis=-2) if config.quantiles else q
    assert acted.max_q.numpy().std() > 0.02
    taken = np.take_along_axis(q, unroll.action.numpy()[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(taken, acted.q_of_action, rtol=0, atol=1e-5)
    np.testing.assert_allclose(q.max(-1), acted.max_q, rtol=0, atol=1e-5)

    if not truncated:
        outcome = unroll.env_output
        unroll = unroll._replace(env_output=outcome._replace(last=tf.zeros_like(outcome.last)))
    assert np.any(unroll.env_output.last[SMALL.burn_in + 1]) == truncated
    assert np.any(unroll.env_output.done[: SMALL.burn_in]), "an episode begins in the burn-in"
    for _, first, _ in agent.moments(unroll).values():
        seen = unroll.env_output.observation[SMALL.burn_in :]
        np.testing.assert_allclose(first, np.mean(seen, axis=(0, 1)), rtol=1e-5)
    online, target = (after_burn_in(q_of(network, unroll)) for network in (agent.model, agent._target.model))
    assert np.any(online.argmax(-1)[1:] != target.argmax(-1)[1:]), "the networks prefer different actions"
    action, env_output = after_burn_in((unroll.action, unroll.env_output))
    expected = r2d2_loss(online, target, action, env_output, WEIGHTS, config)
    assert expected.metrics["q/abs_td_error"] > 0.1
    output = agent.loss(unroll, tf.constant(WEIGHTS))
    assert output.losses.keys() == agent.groups.keys() == {"model"}
    for actual, of_these_steps in zip(output, expected, strict=True):
        tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3), actual, of_these_steps)
    for gradient in gradients_of_loss(agent, unroll):
        assert np.isfinite(gradient).all(), "every weight takes part in the loss"


def test_weights_learn_nothing_from_the_burn_in():
    """The gradient is that of an agent without burn-in that starts from the state at its end."""
    agent, twin = build(), build(dataclasses.replace(SMALL, burn_in=0))
    unroll = acted_unroll(agent, B)
    state = unroll.initial_state
    for t in range(SMALL.burn_in):
        output = tf.nest.map_structure(lambda x, t=t: x[t], unroll.env_output)
        state = agent.act(unroll.prev_action[t], output, state, tf.range(B), tf.constant([0, t])).state
    learned = tf.nest.map_structure(lambda x: x[SMALL.burn_in :], unroll._replace(initial_state=()))
    expected = gradients_of_loss(twin, learned._replace(initial_state=state))
    longer = build(dataclasses.replace(SMALL, burn_in=0, unroll_length=SMALL.burn_in + SMALL.unroll_length))
    for a, e, t in zip(gradients_of_loss(agent, unroll), expected, gradients_of_loss(longer, unroll), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)
        assert np.abs(t - e).max() > 1e-3, "to learn from those steps, too, would be seen"


@pytest.mark.parametrize("munchausen", [0.0, 0.9])
def test_initial_priorities_are_those_of_the_loss_while_both_networks_are_equal(munchausen):
    """They are computed from what was recorded while acting."""
    config = dataclasses.replace(SMALL, munchausen=munchausen, value_rescaling=not munchausen, max_priority_weight=0.2)
    agent = build(dataclasses.replace(config, core="none"))
    rng = np.random.default_rng(0)
    for weight in agent.model.trainable_variables:
        weight.assign(0.3 * rng.standard_normal(weight.shape))
    agent.after_update(agent._config.target_update_period)
    unroll = acted_unroll(agent, B)
    learned = agent.loss(unroll, tf.ones([B])).priorities
    recorded = unroll._replace(initial_state=(), env_output=unroll.env_output._replace(observation=()))
    np.testing.assert_allclose(agent.initial_priorities(recorded), learned, rtol=1e-3)


def test_the_target_of_a_warm_start_is_a_copy_whatever_its_rate():
    agent = build(dataclasses.replace(SMALL, target_update_rate=0.5), apart=True)
    agent.after_update(0)
    for target, online in zip(agent.copies, agent.model.variables, strict=True):
        np.testing.assert_array_equal(target, online)


def act_once(agent, env_ids, seed=0):
    """One step in a fresh episode of as many different situations; actions and behaviour."""
    rng, count = np.random.default_rng(0), len(env_ids)
    prev_action, output = tf.constant(rng.integers(0, A, count), tf.int32), random_output(rng, SPEC, (count,))
    seeds = tf.constant([seed, 3])
    answer = agent.act(prev_action, output, agent.initial_state(count), tf.constant(env_ids, tf.int32), seeds)
    return answer.action.numpy(), answer.behaviour


def greedy(behaviour):
    return np.asarray(behaviour.q_of_action) == np.asarray(behaviour.max_q)


def test_training_environments_explore_by_the_ladder_after_random_play_and_all_others_by_eval_epsilon():
    """Ids from `num_training_envs` on are evaluation environments and padding."""
    ladder = {"epsilon_base": 0.5, "epsilon_low": 1.0, "epsilon_high": 4.0, "eval_epsilon": 0.75}
    agent = build(dataclasses.replace(SMALL, **ladder, epsilon_updates=10))
    env_ids = np.tile([0, 1, 2, 3, B, 100 * B], 1500)
    for updates, least in ((0, 1.0), (8, 0.2), (10, 0.0), (11, 0.0)):
        agent.after_update(updates)
        actions, behaviour = act_once(agent, env_ids)
        epsilons = [*np.maximum([0.5, 0.25, 0.125, 0.0625], least), 0.75, 0.75]
        for env_id, epsilon in zip(env_ids[:6], epsilons, strict=True):
            share, expected = np.mean(~greedy(behaviour)[env_ids == env_id]), epsilon * (A - 1) / A
            assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 1500)
        assert set(actions[~greedy(behaviour)]) == set(range(A))
    assert np.any(actions != act_once(agent, env_ids, seed=1)[0]), "drawn by the seed of the step"
    assert agent.variables[-1].name == "epsilon", "checkpoints and acting copies have it"
    assert len(agent.variables) == len(build().variables) + 1


def test_q_starts_near_zero():
    """So that at first no action is preferred; but not at zero, where the torso would learn nothing."""
    agent = dataclasses.replace(SMALL, burn_in=0, unroll_length=2).build(SPEC, num_training_envs=B, seed=1)
    unroll = acted_unroll(agent, B)
    q = q_of(agent.model, unroll)
    assert np.abs(q).max() < 0.05
    assert np.all(np.ptp(q, axis=-1) > 0)
    assert all(np.any(gradient) for gradient in gradients_of_loss(agent, unroll))
