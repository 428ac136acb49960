"""The environments of docs/guides/environment.md that step many rows in one call."""

import importlib
import pathlib
import re
import sys

import numpy as np
import pytest

from seed_rl.api import Run, load_experiment
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym
from seed_rl.envs.pettingzoo import PettingZoo

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides" / "environment.md"
SMALL = [
    *("Experiment.total_frames=1_600", "Experiment.batch_size=8", "Actors.groups_per_actor=1"),
    *("Actors.envs_per_group=64", "Inference.max_batch_size=128"),
]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Makes a module of the page importable, and returns its number of lines."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")

    def write(module):
        (code,) = re.findall(rf'title="{module}.py"\n(.*?)^```', PAGE.read_text(), re.DOTALL | re.MULTILINE)
        (tmp_path / f"{module}.py").write_text(code)
        importlib.import_module(module)
        return len(code.splitlines())

    yield write
    for name in ("jax_walk", "meeting"):
        sys.modules.pop(name, None)


def test_a_native_vector_environment_in_jax_takes_thirty_lines_and_trains(written, make, tmp_path):
    assert written("jax_walk") <= 30
    walks = Gym("jax_walk:Walks-v0", vectorization="vector_entry_point")
    check_suite(walks, steps=210)
    env = make(walks, 64)
    place, _ = env.reset(seed=1)
    for _ in range(16):  # everyone walks to the right, and begins again in the step after the goal
        before, (place, reward, terminated, truncated, _) = place, env.step(np.ones(64, np.int32))
        begins = before[:, 0] == 1
        np.testing.assert_allclose(place[~begins], before[~begins] + 0.1, atol=1e-6)
        assert np.all(np.abs(place[begins]) <= 0.5)
        assert np.all((reward == 1) == (place[:, 0] == 1))
        assert np.all(terminated == (reward == 1))
        assert not any(truncated)
    own = ["Gym.id='jax_walk:Walks-v0'", "Gym.vectorization='vector_entry_point'"]
    with Run(load_experiment(["gym/any"], [*own, *SMALL]), str(tmp_path / "run")) as run:
        assert list(run.train())[-1]["env_frames"] >= 1_600


def test_a_game_of_ones_own_in_pettingzoos_interface_takes_forty_lines(written):
    assert written("meeting") <= 38
    meeting = PettingZoo("meeting")
    assert meeting.modules == ("meeting",), "for actors in other processes"
    check_suite(meeting, steps=50)
