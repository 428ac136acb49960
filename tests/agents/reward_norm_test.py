"""Agents whose rewards are divided by the running deviation of discounted returns."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.reward_norm import NormalisedRewards
from seed_rl.specs import DiscreteSpec, EnvSpec
from tests.support.experience import NUMBERS, acted_unroll, assert_matches_step_spec, move, with_targets

SPEC, DISCOUNT = EnvSpec(NUMBERS, DiscreteSpec(4)), 0.9
SMALL = {"unroll_length": 6, "hidden": 8, "previous_step_inputs": True, "discount": DISCOUNT}
CONFIGS = {
    "ppo": PPO(**SMALL, core="lstm", core_units=8, value_norm=True),
    "r2d2": R2D2(**SMALL, core="none", burn_in=3, head_hidden=8),
}


@pytest.fixture(params=CONFIGS)
def agent(request):
    inner = CONFIGS[request.param].build(SPEC, 4, seed=1)
    move(inner, seed=1)
    return NormalisedRewards(inner, DISCOUNT), inner


def learn_statistics(agent, unrolls):
    """Passes the first batch twice, as the learner does."""
    moments = tf.function(agent.moments, jit_compile=True, autograph=False)
    for unroll in (unrolls[0], *unrolls):
        agent.update_statistics(moments(unroll), 6.0 * unroll.env_output.reward.shape[1])


def returns_of(unroll, overlap):
    """The discounted returns after the new steps to which an action led, and after the last step, in NumPy."""
    g, found = unroll.initial_state[0].numpy(), []
    reward, done, last = (field.numpy() for field in unroll.env_output[:3])
    for t in range(len(reward)):
        g = DISCOUNT * g + reward[t]
        if t >= overlap:
            found.extend(g[~last[t - 1]])
        g = np.where(done[t], 0.0, g)
    return found, g


def test_rewards_are_measured_in_the_deviation_of_all_discounted_returns(agent):
    agent, inner = agent
    unrolls = [acted_unroll(agent, batch=8, seed=seed, warm_up=seed) for seed in range(4)]
    unroll, weights = unrolls[3], np.ones(8, np.float32)
    assert_matches_step_spec(agent, unroll)
    assert np.any(unroll.initial_state[0] != 0), "returns go on where an unroll begins"
    learn_statistics(agent, unrolls)
    assert any(np.any(unroll.env_output.last[:-1]) for unroll in unrolls)
    unit = np.std(np.concatenate([returns_of(unroll, agent.overlap)[0] for unroll in unrolls]))
    output = agent.loss(with_targets(agent, unroll), weights)
    np.testing.assert_allclose(output.metrics["rewards/unit"], unit, rtol=1e-4)

    measured = unroll.env_output._replace(reward=unroll.env_output.reward / output.metrics["rewards/unit"])
    own = unroll._replace(initial_state=unroll.initial_state[1], env_output=measured)
    assert output.losses["model"] == inner.loss(with_targets(inner, own), weights).losses["model"]
    stored, measured = (
        each._replace(initial_state=(), env_output=each.env_output._replace(observation=())) for each in (unroll, own)
    )
    np.testing.assert_array_equal(agent.initial_priorities(stored), inner.initial_priorities(measured))


@pytest.mark.parametrize("scales", [[1000.0], [0.0, 1000.0], [0.0, 0.0, 0.0, 1000.0]], ids=str)
def test_the_first_values_are_already_learned_in_measured_rewards(scales):
    agent = NormalisedRewards(CONFIGS["ppo"].build(SPEC, 4, seed=1), DISCOUNT)
    unroll = acted_unroll(agent, batch=64, seed=0)
    *before, large = (
        unroll._replace(env_output=unroll.env_output._replace(reward=scale * unroll.env_output.reward))
        for scale in scales
    )
    learn_statistics(agent, [*before, large])
    metrics = agent.loss(with_targets(agent, large), np.ones(64, np.float32)).metrics
    assert metrics["rewards/unit"] > 100.0
    assert 0.2 < metrics["policy/value_unit"] < 2.0


def test_acting_continues_the_return_of_the_unroll(agent):
    agent, _ = agent
    unroll = acted_unroll(agent, batch=8, seed=5)
    state = unroll.initial_state
    for t in range(agent.length):
        output = tf.nest.map_structure(lambda field, t=t: field[t], unroll.env_output)
        state = agent.act(unroll.prev_action[t], output, state, tf.range(8), tf.constant([0, t])).state
    np.testing.assert_allclose(state[0], returns_of(unroll, 1)[1], rtol=1e-5)
