"""Observations that only the critic reads."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import ArraySpec, CannotAct, DiscreteSpec, EnvSpec
from tests.support.experience import FORCES, acted_unroll, move

SEEN = {"picture": ArraySpec((40, 40, 1), "uint8"), "speed": ArraySpec((2,), "float32")}
HIDDEN = {"map": ArraySpec((36, 36, 3), "uint8"), "state": ArraySpec((4,), "float32")}
SETTINGS = {"unroll_length": 3, "hidden": 16, "frame_stack": 2, "critic_keys": ("map", "state")}
CONFIGS = [
    (VTrace(**SETTINGS, core="lstm", core_units=8, observation_norm=True, value_norm=True), DiscreteSpec(3)),
    (SAC(**SETTINGS), FORCES),
]


@pytest.mark.parametrize(("config", "action"), CONFIGS, ids=["V-trace", "SAC"])
def test_only_the_critic_reads_them_and_acting_does_without(config, action):
    agent = config.build(EnvSpec(SEEN | HIDDEN, action), 4, seed=1)
    move(agent, seed=1, scale=0.1)
    unroll = acted_unroll(agent, batch=4)
    hidden = unroll.env_output.observation["state"]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(hidden)
        outputs, _ = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        policy = outputs if isinstance(config, SAC) else outputs.policy
        value = agent._critics.features(unroll) if isinstance(config, SAC) else outputs.baseline
    assert tape.gradient(policy, hidden) is None
    assert np.any(tape.gradient(value, hidden) != 0)
    if config.observation_norm:
        assert "critic" in {variable.path.split("/")[1] for variable in agent.model.trainable_variables}
        moments = agent.moments(unroll)
        assert moments[0].keys() == SEEN.keys() | HIDDEN.keys()
        agent.update_statistics(moments, 12.0)

    def act(env_output):
        first = tf.nest.map_structure(lambda t: t[0], (unroll.prev_action, env_output))
        return agent.act(*first, unroll.initial_state, tf.range(4, 8), tf.constant([1, 2]), greedy=True).action

    seen = {name: unroll.env_output.observation[name] for name in SEEN}
    np.testing.assert_array_equal(act(unroll.env_output._replace(observation=seen)), act(unroll.env_output))


@pytest.mark.parametrize("keys", [("stat",), ("map", "state", "picture", "speed"), ("state", "state")])
def test_they_must_be_there_and_not_all(keys):
    config = dataclasses.replace(CONFIGS[0][0], critic_keys=keys)
    with pytest.raises(CannotAct, match=r"VTrace.critic_keys must name observations, but not all of them, got \("):
        config.check(EnvSpec(SEEN | HIDDEN, DiscreteSpec(3)))
