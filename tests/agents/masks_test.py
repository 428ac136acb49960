"""Action masks in the network of every agent with actions to choose from. `rl/masks_test.py` has the gradients."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, DiscreteSpec, EnvSpec, choices_of
from tests.support.experience import MIXED, NUMBERS, move, random_output

SMALL_R2D2 = R2D2(hidden=8, head_hidden=8, core="none", previous_step_inputs=False)
QUANTILES = dataclasses.replace(SMALL_R2D2, quantiles=3)


def built(config, action):
    """An agent that has learned something, in environments with masks."""
    mask = ArraySpec((-(-sum(choices_of(action)) // 8),), "uint8")
    spec = EnvSpec({"observation": NUMBERS, LEGAL_ACTIONS: mask}, action)
    agent = config.build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.3)
    return agent


@pytest.mark.parametrize(
    ("config", "action"),
    [(VTrace(hidden=16), MIXED), (PQN(hidden=16), DiscreteSpec(9)), (QUANTILES, DiscreteSpec(9))],
    ids=["vtrace", "pqn", "r2d2"],
)
def test_illegal_actions_are_never_taken(config, action):
    count, rng = 4000, np.random.default_rng(0)
    agent = built(config, action)
    legal = rng.random((count, sum(choices_of(action)))) < 0.3
    columns = np.split(np.arange(legal.shape[1]), np.cumsum(choices_of(action))[:-1])
    for own in columns:
        legal[np.arange(count), rng.choice(own, count)] = True  # at least one
    output = random_output(rng, agent.env_spec, (count,))
    output.observation[LEGAL_ACTIONS] = tf.constant(np.packbits(legal, axis=1, bitorder="little"))
    prev_action, state = tf.zeros([count, *action.tensor.shape], action.tensor.dtype), agent.initial_state(count)
    for greedy in (False, True):
        answer = agent.act(prev_action, output, state, tf.range(count), tf.constant([3, 4]), greedy)
        choices = np.reshape(answer.action, (count, -1)).T[: len(columns)].astype(int)
        for own, chosen in zip(columns, choices, strict=True):
            assert legal[np.arange(count), own[chosen]].all()
            assert len(np.unique(chosen)) == len(own)


@pytest.mark.parametrize("config", [SMALL_R2D2, QUANTILES], ids=["q", "quantiles"])
def test_the_legal_values_of_a_dueling_network_have_the_same_mean_whatever_is_legal(config):
    model = built(config, DiscreteSpec(5)).model
    features = tf.constant(np.random.default_rng(0).normal(size=(1, 1, 8)), tf.float32)
    legal = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 0], [0, 0, 0, 0, 1]], bool)
    means = [np.mean(model.heads(features, own[None, None]).numpy()[0, 0][..., own]) for own in legal]
    assert abs(means[0]) > 0.01
    np.testing.assert_allclose(means, means[0], rtol=1e-5)
