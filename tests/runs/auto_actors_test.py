import dataclasses
import glob

import pytest

from seed_rl.api import load_experiment
from seed_rl.runs import auto_actors
from seed_rl.runs.auto_actors import with_actors


@pytest.mark.parametrize(
    ("cores", "rate", "memory", "actors", "envs_per_group"),
    [
        (1, 10_000, 1 << 40, 1, 16),
        (2, 10_000, 1 << 40, 1, 16),  # leaves the learner a core
        (4, 10_000, 1 << 40, 3, 5),
        (4, 40_000, 1 << 40, 2, 8),  # the learner isn't faster
        (64, 10_000, 1 << 40, 4, 4),  # smaller groups cost more, more environments have old weights
        (64, 10_000, 1, 1, 16),
    ],
)
def test_actors_share_the_environments(cores, rate, memory, actors, envs_per_group, small_catch, monkeypatch):
    monkeypatch.setattr(glob, "glob", lambda pattern: [])  # no accelerator
    monkeypatch.setattr(auto_actors, "cores", lambda: cores)
    monkeypatch.setattr(auto_actors, "free_host_memory", lambda: memory)
    monkeypatch.setattr(auto_actors, "measure", lambda env, size: (rate, 1 << 20))
    asked = dataclasses.replace(small_catch.actors, groups_per_actor=2, envs_per_group=16)
    inference = dataclasses.replace(small_catch.inference, max_batch_size=32)
    asking = dataclasses.replace(small_catch, actors=asked, batch_size=16, inference=inference)
    assert with_actors(asking).actors == dataclasses.replace(asked, num_actors=actors, envs_per_group=envs_per_group)


@pytest.mark.parametrize("cores", [1, 16])
def test_groups_that_evaluate_keep_their_size_and_leave_some_for_training(cores, monkeypatch):
    monkeypatch.setattr(auto_actors, "cores", lambda: cores)
    bindings = ['Actors.eval_options = {"delay": 3}', "Actors.num_actors = 4", "Actors.num_eval_envs = 32"]
    chosen = with_actors(load_experiment(["memory/r2d2"], bindings)).actors
    assert chosen.envs_per_group == 16
    assert 32 < chosen.num_envs <= 128, "two batches, or as many as before"
