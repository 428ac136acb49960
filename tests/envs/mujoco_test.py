"""The suite `mujoco`: real tasks of both backends."""

import importlib.util
import sys

import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild, random_actions
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.elsewhere import watch_elsewhere
from seed_rl.envs.mujoco import MuJoCo


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
@pytest.mark.parametrize(
    ("task", "spec"),
    [
        ("HalfCheetah", "observation float32[17]; action Continuous(-1..1, -1..1, -1..1, -1..1, -1..1, -1..1)"),
        ("Hopper", "observation float32[11]; action Continuous(-1..1, -1..1, -1..1)"),
    ],
)
def test_conformance(task, spec, backend):
    config = MuJoCo(task=task, backend=backend, max_episode_steps=30, reset_noise_scale=0.01)
    assert str(config.spec()) == spec
    check_suite(config, 70)


def test_settings_reach_the_simulator(make):
    def rewards(**settings):
        config = MuJoCo(task="HalfCheetah", **settings)
        env, rng = make(config, 1), np.random.default_rng(1)
        env.reset(seed=1)
        return [float(env.step(random_actions(config.spec().action, rng, 1))[1][0]) for _ in range(5)]

    default = rewards()
    for change in (
        {"ctrl_cost_weight": 0.0},
        {"forward_reward_weight": 2.0},
        {"frame_skip": 1},
        {"reset_noise_scale": 0.0},
    ):
        assert rewards(**change) != default


def test_it_is_drawn_without_a_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    env = watch_elsewhere(MuJoCo(task="Hopper"))
    try:
        observation, _ = env.reset(seed=1)
        picture = env.picture(observation)
    finally:
        env.close()
    assert picture.shape == (480, 480, 3)
    assert np.ptp(picture) > 100


def test_a_setting_that_the_task_lacks_is_named():
    with pytest.raises(CannotBuild, match="Reacher-v5 can't be made: .*'ctrl_cost_weight'"):
        MuJoCo(task="Reacher", ctrl_cost_weight=1.0).make(1)


def test_a_missing_simulator_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        CannotBuild, match=r"MuJoCo needs mujoco, .* here: pip install 'gymnasium\[mujoco\]' 'mujoco<3.15'"
    ):
        MuJoCo().check_packages()
