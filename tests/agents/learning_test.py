"""Agents that learn values of actions find the rewarded one."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import DiscreteSpec, EnvSpec
from tests.support.experience import NUMBERS, acted_unroll

SHARED = {"hidden": 16, "unroll_length": 5, "observation_norm": True, "discount": 0.0}
R2D2_ONLY = {"torso": "mlp", "core": "none", "head_hidden": 7, "burn_in": 0, "epsilon_base": 1.0, "quantiles": 8}
CONFIGS = [PQN(**SHARED, final_epsilon=1.0), R2D2(**SHARED, **R2D2_ONLY, target_update_period=3)]


@pytest.mark.parametrize("config", CONFIGS, ids=["pqn", "r2d2"])
def test_it_learns_the_rewarded_action_from_observations_of_any_scale(config):
    agent = config.build(EnvSpec(NUMBERS, DiscreteSpec(3)), 16, seed=1)
    act, train_step = tf.function(agent.act, autograph=False), TrainStep(agent, Optimizer(learning_rate=0.02))
    for seed in range(50):
        unroll = acted_unroll(agent, batch=16, seed=seed, warm_up=0, act=act)
        rewarded = np.where(unroll.env_output.observation[..., 0] > 0, 2, 0)
        # The reward of an action comes with the next step.
        reward = tf.constant(np.roll(unroll.action == rewarded, 1, axis=0), tf.float32)
        env_output = unroll.env_output._replace(reward=reward, observation=1e4 + 50 * unroll.env_output.observation)
        train_step(unroll._replace(env_output=env_output), 0.0, np.ones(16))
        agent.after_update(seed + 1)
    q, _ = agent.model(unroll.prev_action, env_output, unroll.initial_state)
    q = q.numpy().reshape(*q.shape[:2], -1, 3).mean(axis=2)
    assert np.mean(np.argmax(q, axis=-1) == rewarded) > 0.9
