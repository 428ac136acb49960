"""The PQN agent: its loss, its exploration and its learning."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.pqn import PQN
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.specs import DiscreteSpec, EnvSpec
from tests.support.experience import NUMBERS, acted_unroll, assert_matches_step_spec, move, with_targets

SPEC = EnvSpec(NUMBERS, DiscreteSpec(3))
SMALL = PQN(hidden=16, unroll_length=5, observation_norm=True, truncation_is_termination=True, discount=0.9)


def test_the_loss_is_the_error_to_the_lambda_returns():
    agent = SMALL.build(SPEC, num_training_envs=4, seed=1)
    move(agent, seed=1, scale=0.3)
    unroll = acted_unroll(agent, batch=3)
    assert_matches_step_spec(agent, unroll)
    q = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)[0].numpy()
    reward, done, last, action = (x.numpy() for x in (*unroll.env_output[:3], unroll.action))
    assert 0 < last[:-1].sum() < done[1:].sum() < done[1:].size
    taken, values = np.take_along_axis(q, action[..., None], axis=-1)[:-1, :, 0], q.max(axis=-1)
    discount = 0.9 * ~(done | last)
    steps = (discount[1:], reward[1:], values[:-1], values[-1])
    targets = lambda_returns(*steps, last_t=last[:-1], lambda_=0.65)
    output = agent.loss(with_targets(agent, unroll), tf.ones([3]))
    squares = np.where(last[:-1], 0, targets - taken) ** 2
    np.testing.assert_allclose(output.losses["model"], 0.5 * np.mean(squares), rtol=1e-5)
    np.testing.assert_allclose(output.metrics["q/value"], taken.mean(), rtol=1e-5)
    assert output.metrics.keys() | output.maxima.keys() == {"loss/total"} | {metric.name for metric in PQN.metrics}


def test_it_learns_the_rewarded_action_from_observations_of_any_scale():
    config = dataclasses.replace(SMALL, discount=0.0, final_epsilon=1.0)
    agent = config.build(SPEC, num_training_envs=16, seed=1)
    act, train_step = tf.function(agent.act, autograph=False), TrainStep(agent, Optimizer(learning_rate=0.02))
    for seed in range(50):
        unroll = acted_unroll(agent, batch=16, seed=seed, warm_up=0, act=act)
        rewarded = np.where(unroll.env_output.observation[..., 0] > 0, 2, 0)
        # The reward of an action comes with the next step.
        reward = tf.constant(np.roll(unroll.action == rewarded, 1, axis=0), tf.float32)
        env_output = unroll.env_output._replace(reward=reward, observation=1e4 + 50 * unroll.env_output.observation)
        train_step(unroll._replace(env_output=env_output), 0.0, np.ones(16))
    q, _ = agent.model(unroll.prev_action, env_output, unroll.initial_state)
    assert np.mean(np.argmax(q, axis=-1) == rewarded) > 0.9


def test_epsilon_falls_with_the_updates_and_is_small_in_evaluation():
    config = dataclasses.replace(SMALL, final_epsilon=0.0, epsilon_updates=10)
    agent = config.build(SPEC, num_training_envs=400, seed=1)
    q = tf.one_hot(tf.ones([800], tf.int32), 3)

    def greedy_share(which, greedy=False):
        actions, _ = agent.decide(q, tf.range(800), tf.constant([1, 2]), greedy)
        return np.mean(actions.numpy()[which] == 1)

    training, evaluation = slice(400), slice(400, None)
    for updates, expected in ((0, 1 / 3), (5, 2 / 3), (10, 1.0), (11, 1.0)):
        agent.after_update(updates)
        assert greedy_share(training) == pytest.approx(expected, abs=0.08)
        assert greedy_share(evaluation) == 1
    agent.after_update(0)
    assert greedy_share(training, greedy=True) == 1
    assert any(variable.name == "epsilon" for variable in agent.variables), "checkpoints and acting copies have it"
