"""The suite `mujoco`: what reaches the simulator, and what it draws."""

import json
from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.elsewhere import watch_elsewhere
from seed_rl.envs.mujoco import MuJoCo


def test_options_reach_the_simulator(make):
    def reward(**options):
        env = make(MuJoCo(options=json.dumps({"reset_noise_scale": 0.0, **options})), 1)
        env.reset(seed=1)
        return env.step(np.ones((1, 6), np.float32))[1][0]

    assert reward(ctrl_cost_weight=0.0) == pytest.approx(reward() + 0.1 * 6)


def test_it_is_drawn_without_a_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with closing(watch_elsewhere(MuJoCo(task="Hopper"))) as env:
        picture = env.picture(env.reset(seed=1)[0])
    assert picture.shape == (480, 480, 3)
    assert np.ptp(picture) > 100
