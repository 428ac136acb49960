"""EnvPool's environments in the suite `gym`."""

import sys

import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym

PONG = '{"max_episode_steps": 10, "stack_num": 2, "img_height": 40, "img_width": 50}'


def pooled(name, options="{}", **settings):
    return Gym(name, envpool=True, options=options, **settings)


@pytest.mark.parametrize(
    ("config", "steps", "spec"),
    [
        (pooled("CartPole-v1", vectorization="async"), 80, "observation float32[4]; action Discrete(2)"),
        (pooled("Pong-v5", PONG), 25, "observation uint8[40, 50, 2]; action Discrete(6)"),
    ],
    ids=["CartPole", "Pong"],
)
def test_conformance(config, steps, spec):
    assert str(config.spec()) == spec
    check_suite(config, steps)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Nope-v1", "{}", r"EnvPool has no environment 'Nope-v1'; envpool.list_all_envs\(\) lists them"),
        ("CartPole-v1", '{"wheels": 4}', "CartPole-v1 can't be made by EnvPool: .* argument 'wheels'"),
    ],
)
def test_environments_that_cannot_be_made_are_named(name, options, message):
    with pytest.raises(CannotBuild, match=message):
        pooled(name, options).make(2)


def test_without_envpool_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(CannotBuild, match=r"EnvPool is not installed here: pip install envpool"):
        pooled("CartPole-v1").make(1)
    Gym("CartPole-v1").make(1).close()
