"""Agents whose rewards are divided by the running deviation of discounted returns."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.reward_norm import NormalisedRewards
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.specs import DiscreteSpec, EnvSpec
from tests.support.experience import NUMBERS, acted_unroll, assert_matches_step_spec, move, with_targets

SPEC, DISCOUNT = EnvSpec(NUMBERS, DiscreteSpec(4)), 0.9
CORE = {"core": "lstm", "core_units": 8, "hidden": 8, "previous_step_inputs": True, "discount": DISCOUNT}
CONFIGS = {
    "vtrace": VTrace(unroll_length=6, value_norm=True, **CORE),
    "r2d2": R2D2(unroll_length=6, burn_in=3, head_hidden=8, **CORE),
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
    """The discounted return after each new step, in NumPy."""
    g, found = unroll.initial_state[0].numpy(), []
    for reward, done in zip(unroll.env_output.reward.numpy(), unroll.env_output.done.numpy(), strict=True):
        g = DISCOUNT * g + reward
        found.append(g)
        g = np.where(done, 0.0, g)
    return np.array(found[overlap:]), g


def test_the_unit_is_the_deviation_of_all_discounted_returns(agent):
    agent, _ = agent
    unrolls = [acted_unroll(agent, batch=8, seed=seed, warm_up=seed) for seed in range(4)]
    assert_matches_step_spec(agent, unrolls[0])
    assert np.any(unrolls[3].initial_state[0] != 0), "returns go on where an unroll begins"
    learn_statistics(agent, unrolls)
    expected = np.std(np.concatenate([returns_of(unroll, agent.overlap)[0].ravel() for unroll in unrolls]))
    weights = np.ones(8, np.float32)
    unit = agent.loss(with_targets(agent, unrolls[0]), weights).metrics["rewards/unit"]
    np.testing.assert_allclose(unit, expected, rtol=1e-4)


def test_acting_continues_the_return_of_the_unroll(agent):
    agent, _ = agent
    unroll = acted_unroll(agent, batch=8, seed=5)
    state = unroll.initial_state
    for t in range(agent.length):
        output = tf.nest.map_structure(lambda field, t=t: field[t], unroll.env_output)
        state = agent.act(unroll.prev_action[t], output, state, tf.range(8), tf.constant([0, t])).state
    np.testing.assert_allclose(state[0], returns_of(unroll, 0)[1], rtol=1e-5)


def test_losses_and_priorities_are_those_of_the_agent_with_rewards_in_the_unit(agent):
    agent, inner = agent
    unroll = acted_unroll(agent, batch=8, seed=2)
    learn_statistics(
        agent, [unroll._replace(env_output=unroll.env_output._replace(reward=7 * unroll.env_output.reward))]
    )
    weights = np.ones(8, np.float32)
    output = agent.loss(with_targets(agent, unroll), weights)
    reward = unroll.env_output.reward / output.metrics["rewards/unit"]
    own = unroll._replace(initial_state=unroll.initial_state[1], env_output=unroll.env_output._replace(reward=reward))
    expected = inner.loss(with_targets(inner, own), weights)
    assert output.losses["model"] == expected.losses["model"]
    raw = unroll._replace(initial_state=unroll.initial_state[1])
    assert output.losses["model"] != inner.loss(with_targets(inner, raw), weights).losses["model"]
    stored = unroll._replace(initial_state=(), env_output=unroll.env_output._replace(observation=()))
    as_stored = stored._replace(env_output=own.env_output._replace(observation=()))
    np.testing.assert_array_equal(agent.initial_priorities(stored), inner.initial_priorities(as_stored))
