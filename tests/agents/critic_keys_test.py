"""Observations that only the critic reads."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.agents.pqn import PQN
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import ArraySpec, CannotAct, DiscreteSpec, EnvSpec
from tests.support.experience import FORCES, acted_unroll, move

SEEN = {"picture": ArraySpec((40, 40, 1), "uint8"), "speed": ArraySpec((2,), "float32")}
HIDDEN = {"map": ArraySpec((36, 36, 3), "uint8"), "state": ArraySpec((4,), "float32")}
SETTINGS = {"unroll_length": 3, "hidden": 16, "frame_stack": 2, "critic_keys": ("map", "state")}
CONFIGS = [
    (VTrace(**SETTINGS, core="lstm", core_units=8, observation_norm=True, value_norm=True), DiscreteSpec(3)),
    (PPO(**SETTINGS), FORCES),
    (SAC(**SETTINGS), FORCES),
]


@contextlib.contextmanager
def watching(unroll):
    """The unroll with its hidden state as a variable, and a tape that watches it."""
    state = tf.Variable(unroll.env_output.observation["state"])
    with tf.GradientTape(persistent=True) as tape:
        observation = unroll.env_output.observation | {"state": state.value()}
        steps = unroll.env_output._replace(observation=observation)
        yield unroll._replace(env_output=steps), lambda target: tape.gradient(target, state)


@pytest.mark.parametrize(("config", "action"), CONFIGS, ids=["V-trace", "PPO", "SAC"])
def test_only_the_critic_reads_them_and_acting_does_without(config, action):
    agent = config.build(EnvSpec(SEEN | HIDDEN, action), 4, seed=1)
    move(agent, seed=1, scale=0.1)
    unroll = acted_unroll(agent, batch=4)
    with watching(unroll) as (watched, gradient):
        state = watched.initial_state
        outputs, _ = agent.model(watched.prev_action, watched.env_output, state)
        policy = tf.reduce_sum(outputs if isinstance(config, SAC) else outputs.policy)
        value = agent._critics.features(watched) if isinstance(config, SAC) else outputs.baseline
        value = tf.reduce_sum(value)
    assert gradient(policy) is None
    assert np.any(gradient(value) != 0)

    def act(env_output):
        first = tf.nest.map_structure(lambda t: t[0], (unroll.prev_action, env_output))
        return agent.act(*first, unroll.initial_state, tf.range(4, 8), tf.constant([1, 2]), greedy=True).action

    seen = {name: unroll.env_output.observation[name] for name in SEEN}
    np.testing.assert_array_equal(act(unroll.env_output._replace(observation=seen)), act(unroll.env_output))


def test_the_value_learns_from_them_without_changing_the_policys_inputs():
    config, action = CONFIGS[0]
    agent = config.build(EnvSpec(SEEN | HIDDEN, action), 4, seed=1)
    move(agent, seed=1, scale=0.1)  # the value's head begins with zeros, which let no gradient through
    unroll = acted_unroll(agent, batch=4)
    names = {variable.path.split("/")[1] for variable in agent.model.trainable_variables}
    assert "critic" in names
    moments = agent.moments(unroll)
    assert set(moments.observations) == SEEN.keys() | HIDDEN.keys()
    agent.update_statistics(moments, 12.0)
    with tf.GradientTape() as tape:
        loss = agent.loss(unroll, tf.ones(4)).losses["model"]
    critic = [variable.value for variable in agent.model.critic.trainable_variables]
    assert any(np.any(gradient != 0) for gradient in tape.gradient(loss, critic) if gradient is not None)


@pytest.mark.parametrize("keys", [("stat",), ("map", "state", "picture", "speed"), ("state", "state")])
def test_they_must_be_there_and_not_all(keys):
    config = dataclasses.replace(CONFIGS[0][0], critic_keys=keys)
    with pytest.raises(CannotAct, match=r"VTrace.critic_keys must name observations, but not all of them, got \("):
        config.check(EnvSpec(SEEN | HIDDEN, DiscreteSpec(3)))


def test_an_agent_without_a_critic_refuses_them():
    with pytest.raises(
        ValueError, match=r"PQN.critic_keys must be \(\), got .*: only VTrace, PPO and SAC have a critic"
    ):
        PQN(critic_keys=("state",))
