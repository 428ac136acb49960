"""Fixtures for the tests of all neighbours."""

import importlib

import pytest

from tests.evaluation import conftest as evaluation
from tests.runs import conftest as runs

saved_run = evaluation.saved_run
small_catch = runs.small_catch


@pytest.fixture
def run_with_critic_keys(saved_run):
    """Makes the log directory of a run whose critic reads these observations, too; returns it."""
    importlib.import_module("tests.support.registered_envs")  # permits the run to name it
    env, options = "tests.support.registered_envs:Echo-v0", '{"senses": "nested", "levers": "from three"}'
    common = f"Gym.id = '{env}'", f"Gym.options = {options}"
    return lambda keys, *bindings: saved_run("gym/any", *common, f"VTrace.critic_keys = {keys}", *bindings)[0]
