"""Action masks in every agent with actions to choose from: illegal ones are never taken, and change no gradient."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec, choices_of
from tests.support.experience import NUMBERS, acted_unroll, move, random_output, with_targets

SMALL = {"hidden": 16, "unroll_length": 5}
CONFIGS = {
    "vtrace": VTrace(**SMALL, kl_cost=0.1),
    "ppo": PPO(**SMALL),
    "pqn": PQN(**SMALL),
    "r2d2": R2D2(**SMALL, previous_step_inputs=False, burn_in=2, head_hidden=8, core="lstm", core_units=8),
}
BATCH = 3


def masked_spec(action):
    return EnvSpec(
        {"observation": NUMBERS, LEGAL_ACTIONS: ArraySpec((-(-sum(choices_of(action)) // 8),), "uint8")}, action
    )


def built(name, spec):
    agent = CONFIGS[name].build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.3)
    return agent


@pytest.mark.parametrize("name", CONFIGS)
def test_illegal_actions_are_never_taken(name):
    count, rng = 4000, np.random.default_rng(0)
    action = DiscreteSpec(9) if name in ("pqn", "r2d2") else MultiDiscreteSpec((4, 7))
    agent = built(name, masked_spec(action))
    legal = rng.random((count, sum(choices_of(action)))) < 0.3
    columns = np.split(np.arange(legal.shape[1]), np.cumsum(choices_of(action))[:-1])
    for own in columns:
        legal[np.arange(count), rng.choice(own, count)] = True  # at least one
    output = random_output(rng, agent.env_spec, (count,))
    output.observation[LEGAL_ACTIONS] = tf.constant(np.packbits(legal, axis=1, bitorder="little"))
    prev_action, state = tf.zeros([count, *action.tensor.shape], tf.int32), agent.initial_state(count)
    for greedy in (False, True):
        answer = agent.act(prev_action, output, state, tf.range(count), tf.constant([3, 4]), greedy)
        for own, chosen in zip(columns, np.reshape(answer.action, (count, -1)).T, strict=True):
            assert legal[np.arange(count), own[chosen]].all()
            assert len(np.unique(chosen)) == len(own)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "discrete") for name in CONFIGS), ("vtrace", "multi-discrete"), ("ppo", "multi-discrete")],
)
def test_gradients_are_those_of_the_legal_actions_alone(name, kind):
    values = [[2, 5, 6]] if kind == "discrete" else [[1, 3], [0, 2]]
    action, fewer = (
        (DiscreteSpec(7), DiscreteSpec(3))
        if kind == "discrete"
        else (MultiDiscreteSpec((4, 3)), MultiDiscreteSpec((2, 2)))
    )
    starts = np.cumsum((0, *choices_of(action)[:-1]))
    columns = np.concatenate([np.add(own, start) for own, start in zip(values, starts, strict=True)])

    def reduced(tensor):
        tensor = np.asarray(tensor)
        return tensor[..., columns] if tensor.shape[-1:] == (7,) else tensor

    full, few = built(name, masked_spec(action)), built(name, EnvSpec({"observation": NUMBERS}, fewer))
    for own, other in zip(few.variables, full.variables, strict=True):
        own.assign(reduced(other.numpy()))
    legal = np.isin(np.arange(7), columns)

    def act(prev_action, output, *rest):
        bits = np.tile(np.packbits(legal, bitorder="little"), (BATCH, 1))
        output.observation[LEGAL_ACTIONS] = tf.constant(bits)
        return full.act(prev_action, output, *rest)

    unroll = acted_unroll(full, BATCH, act=act)
    chosen = [np.zeros(n, np.int32) for n in choices_of(action)]
    for indices, own in zip(chosen, values, strict=True):
        indices[own] = np.arange(len(own))

    def renumbered(actions):
        parts = np.reshape(actions, (*unroll.env_output.reward.shape, -1))
        parts = [indices[parts[..., k]] for k, indices in enumerate(chosen)]
        return tf.constant(np.stack(parts, axis=-1).reshape(actions.shape))

    smaller = unroll._replace(
        action=renumbered(unroll.action),
        prev_action=renumbered(unroll.prev_action),
        behaviour=tf.nest.map_structure(lambda tensor: tf.constant(reduced(tensor)), unroll.behaviour),
        env_output=unroll.env_output._replace(
            observation={"observation": unroll.env_output.observation["observation"]}
        ),
    )

    def learned(agent, unroll):
        weights = agent.groups["model"].variables
        with tf.GradientTape() as tape:
            output = agent.loss(with_targets(agent, unroll), tf.ones([BATCH]))
            loss = output.losses["model"]
        return output, tape.gradient(loss, [weight.value for weight in weights])

    output, gradients = learned(full, unroll)
    expected, fewer_gradients = learned(few, smaller)
    for key, value in {**expected.metrics, **expected.maxima}.items():
        np.testing.assert_allclose({**output.metrics, **output.maxima}[key], value, rtol=1e-5, atol=1e-6, err_msg=key)
    size = max(float(tf.reduce_max(tf.abs(own))) for own in gradients)
    assert size > 1e-3
    for own, other in zip(gradients, fewer_gradients, strict=True):
        np.testing.assert_allclose(reduced(own), other, rtol=0, atol=1e-6 * max(size, 1))
        if own.shape[-1] == 7:
            assert not own.numpy()[..., ~legal].any()
