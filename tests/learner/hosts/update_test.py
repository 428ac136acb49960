"""Updates of several learner hosts, each with its part of the batch, are those of a single one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.learner.train_step import TrainStep
from seed_rl.optimizers import Optimizer
from tests.support.quadratic_agent import LENGTH, QuadraticAgent, unroll_of

HOSTS, BATCH = 3, 12


class Statistician(QuadraticAgent):
    """Keeps the mean reward of the batch."""

    def __init__(self):
        super().__init__(two_groups=True)
        self.mean = keras.Variable(0.0, dtype="float32")

    def moments(self, unroll):
        return (tf.reduce_mean(unroll.env_output.reward),)

    def update_statistics(self, moments, steps):
        self.mean.assign(moments[0] * steps)


def new_step(passes, minibatches, *link):
    agent = Statistician()
    optimizer = Optimizer(learning_rate=0.05, epsilon=1e-2, clip_norm=1.0)
    return agent, TrainStep(agent, optimizer, None, passes, minibatches, *link)


def parts_of(rewards, states, weights, count):
    columns = np.split(np.arange(BATCH), count)
    return [(unroll_of(rewards[:, own], states[own]), weights[own]) for own in columns]


def test_an_update_is_the_same_on_one_host_and_on_several(linked, everywhere):
    rng = np.random.default_rng(0)
    rewards, states, weights = rng.normal(size=(LENGTH, BATCH)), rng.normal(size=BATCH), rng.uniform(0.5, 1, BATCH)
    spoiled = rewards.copy()
    spoiled[1, BATCH - 1] = np.inf  # of the last host
    agents, steps = zip(*[new_step(1, 1, link) for link in linked(HOSTS)], strict=True)
    agent, step = new_step(1, 1)
    for number, batch in enumerate((rewards, spoiled, rewards + 1)):
        parts = parts_of(batch, states, weights, HOSTS)
        updates = everywhere(lambda step, part: step(part[0], 0.0, part[1]), steps, parts)
        (unroll, importance), *_ = parts_of(batch, states, weights, 1)
        expected = step(unroll, 0.0, importance)
        assert expected.left_out == (number == 1)
        for own, update in zip(agents, updates, strict=True):
            assert (update.optimizer_steps, update.left_out) == (expected.optimizer_steps, expected.left_out)
            sizes = {name: HOSTS for name in expected.metrics if name == "a/size"}  # of a host's own part
            assert {n: v * sizes.get(n, 1) for n, v in update.metrics.items()} == pytest.approx(expected.metrics)
            np.testing.assert_allclose(own.numpy(), agent.numpy(), rtol=1e-5)
            assert own.mean.numpy() == pytest.approx(agent.mean.numpy())
            np.testing.assert_array_equal(own.numpy(), agents[0].numpy(), "the same bits on all hosts")
        priorities = np.concatenate([update.priorities for update in updates])
        np.testing.assert_allclose(priorities, expected.priorities, rtol=1e-6)


def test_hosts_take_as_many_optimizer_steps_from_minibatches_of_their_own(linked, everywhere):
    rng = np.random.default_rng(0)
    rewards, states, weights = rng.normal(size=(LENGTH, BATCH)), rng.normal(size=BATCH), np.ones(BATCH)
    agents, steps = zip(*[new_step(2, 2, link) for link in linked(HOSTS)], strict=True)
    parts = parts_of(rewards, states, weights, HOSTS)
    updates = everywhere(lambda step, part: step(part[0], 0.0, part[1]), steps, parts)
    assert [update.optimizer_steps for update in updates] == [4] * HOSTS
    for agent in agents:
        np.testing.assert_array_equal(agent.numpy(), agents[0].numpy())
    for (unroll, _), update in zip(parts, updates, strict=True):
        expected = unroll.initial_state + 10 * unroll.env_output.reward[1] + 100
        np.testing.assert_allclose(update.priorities, expected, rtol=1e-6)
        assert update.metrics["reward/max"] == pytest.approx(rewards.max())
