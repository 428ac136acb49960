"""The environments of docs/guides/environment.md that step many rows in one call."""

import importlib
import pathlib
import re

import pytest

from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym
from seed_rl.envs.pettingzoo import PettingZoo

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides" / "environment.md"


@pytest.mark.parametrize(
    ("module", "config", "steps"),
    [
        ("jax_walk", Gym("jax_walk:Walks-v0", vectorization="vector_entry_point"), 210),
        ("meeting", PettingZoo("meeting"), 50),
    ],
)
def test_a_listing_of_the_guide_is_a_suite(module, config, steps, tmp_path, monkeypatch):
    (code,) = re.findall(rf'title="{module}.py"\n(.*?)^```', PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    importlib.import_module(module)
    check_suite(config, steps)
