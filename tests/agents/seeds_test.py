"""An agent's weights depend on its seed alone, and the generators of the program around it on nothing of the agent."""

import random
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.config import seeding
from seed_rl.agents.ppo import PPO
from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from tests.support.experience import CHOICES, FORCES, NUMBERS

AGENTS = [
    (VTrace(hidden=8, core="lstm", core_units=4), CHOICES),
    (PPO(hidden=8), FORCES),
    (R2D2(hidden=8, core="none", head_hidden=8), DiscreteSpec(3)),
    (PQN(hidden=8), DiscreteSpec(3)),
    (SAC(hidden=8, head_layers=1), FORCES),
]
OWN = """
import keras

class Drawn(keras.layers.Layer):
    def __init__(self, units, kernel_initializer, dtype, name):
        super().__init__(dtype=dtype, name=name)
        self.dense = keras.layers.Dense(units, kernel_initializer=keras.initializers.RandomNormal())

    def call(self, frames):
        return keras.layers.Flatten()(self.dense(frames))

class Fails(Drawn):
    def call(self, frames):
        raise RuntimeError
"""


def of_type(value):
    return type(value).__name__


def kernels(config, action, seed):
    agent = config.build(EnvSpec(NUMBERS, action), num_training_envs=1, seed=seed)
    return [v.numpy() for v in agent.variables if len(v.shape) > 1 and np.any(v)]


def next_draws():
    """What the generators of a program give next."""
    tensorflow = tf.random.get_global_generator().uniform([]), tf.random.uniform([])
    return [
        random.random(),
        np.random.random(),  # noqa: NPY002
        *map(float, tensorflow),
        float(keras.random.uniform([])),
    ]


@pytest.mark.parametrize(("config", "action"), AGENTS, ids=of_type)
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


def test_custom_layers_draw_from_the_seed_and_a_failing_one_gives_the_generator_back(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "drawing_layers.py").write_text(OWN)
    spec = EnvSpec(ArraySpec((4, 4, 1), "uint8"), DiscreteSpec(3))

    def torso(name, seed):
        agent = VTrace(torso=f"drawing_layers:{name}", frame_stack=1, hidden=2).build(spec, 1, seed)
        (layer,) = agent.model.trunk._torsos
        return np.ravel(layer.dense.kernel)

    np.testing.assert_array_equal(torso("Drawn", 1), torso("Drawn", 1))
    assert not np.any(torso("Drawn", 1) == torso("Drawn", 2))
    before = random.getstate()
    with pytest.raises(RuntimeError, match="Fails"):
        torso("Fails", 1)
    assert random.getstate() == before


def test_of_two_threads_one_waits_for_the_other():
    before = random.getstate()

    def draws(seed):
        with seeding(seed):
            return [random.random() for _ in range(20_000)]

    alone = [draws(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draws, range(4))) == alone
    assert random.getstate() == before
