"""An agent's weights depend on its seed alone, and the generators of the program around it on nothing of the agent."""

import random
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.config import seeding
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import DiscreteSpec, EnvSpec
from tests.support.experience import CHOICES, FORCES, NUMBERS

AGENTS = [
    (VTrace(hidden=8, core="lstm", core_units=4, kernel_initializer="orthogonal"), CHOICES),
    (R2D2(hidden=8, core="none", head_hidden=8), DiscreteSpec(3)),
    (SAC(hidden=8, head_layers=1), FORCES),
]


def kernels(config, action, seed):
    agent = config.build(EnvSpec(NUMBERS, action), num_training_envs=1, seed=seed)
    return [v.numpy() for v in agent.variables if len(v.shape) > 1 and np.any(v)]


def next_draws():
    """What the generators of a program give next."""
    tensors = tf.random.get_global_generator().uniform([]), tf.random.uniform([]), keras.random.uniform([])
    return [random.random(), np.random.random(), *map(float, tensors)]  # noqa: NPY002


@pytest.mark.parametrize(("config", "action"), AGENTS, ids=["V-trace", "R2D2", "SAC"])
def test_the_seed_draws_the_weights_and_the_program_goes_on_with_its_own_draws(config, action):
    def after(build):
        keras.utils.set_random_seed(5)
        tf.random.get_global_generator().reset_from_seed(5)
        weights = build()
        return weights, next_draws()

    first, draws = after(lambda: kernels(config, action, 1))
    assert draws == after(lambda: None)[1]
    for one, again, other in zip(first, kernels(config, action, 1), kernels(config, action, 2), strict=True):
        np.testing.assert_array_equal(one, again)
        assert not np.any(one == other)


def test_of_two_threads_one_waits_for_the_other_and_a_failing_one_gives_the_generator_back():
    before = random.getstate()
    with pytest.raises(ArithmeticError), seeding(1):
        raise ArithmeticError
    assert random.getstate() == before

    def draws(seed):
        with seeding(seed):
            return [random.random() for _ in range(20_000)]

    alone = [draws(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draws, range(4))) == alone
    assert random.getstate() == before
