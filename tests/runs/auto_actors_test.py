import dataclasses

import pytest

from seed_rl.api import load_experiment
from seed_rl.runs import auto_actors
from seed_rl.runs.auto_actors import with_actors


@pytest.mark.parametrize(("cores", "most"), [(1, 1), (2, 1), (4, 3), (64, 63)])
def test_actors_leave_the_learner_a_core_and_share_the_environments(cores, most, small_catch, monkeypatch):
    monkeypatch.setattr(auto_actors, "cores", lambda: cores)
    asked = dataclasses.replace(small_catch.actors, groups_per_actor=2, envs_per_group=16)
    inference = dataclasses.replace(small_catch.inference, max_batch_size=32)
    asking = dataclasses.replace(small_catch, actors=asked, batch_size=16, inference=inference)
    chosen = with_actors(asking).actors
    assert 1 <= chosen.num_actors <= most
    assert chosen.envs_per_group >= 4
    assert chosen.num_envs <= 2 * 16, "more would wait for the learner with old weights"


def test_little_memory_allows_one_actor(small_catch, monkeypatch):
    monkeypatch.setattr(auto_actors, "cores", lambda: 64)
    monkeypatch.setattr(auto_actors, "free_host_memory", lambda: 1)
    assert with_actors(small_catch).actors.num_actors == 1


@pytest.mark.parametrize("cores", [1, 16])
def test_groups_that_evaluate_keep_their_size_and_leave_some_for_training(cores, monkeypatch):
    monkeypatch.setattr(auto_actors, "cores", lambda: cores)
    bindings = ['Actors.eval_options = {"delay": 3}', "Actors.num_actors = 4", "Actors.num_eval_envs = 32"]
    chosen = with_actors(load_experiment(["memory/r2d2"], bindings)).actors
    assert chosen.envs_per_group == 16
    assert 32 < chosen.num_envs <= 128, "two batches, or as many as before"
