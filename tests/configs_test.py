import json

import pytest

from seed_rl import experiment


@pytest.mark.parametrize("name", experiment.shipped_configs())
def test_every_shipped_config_builds_its_agent(name):
    loaded = experiment.load([name])
    agent = loaded.agent.build(loaded.env.spec(), loaded.seed)
    assert agent.length == agent.unroll_length + agent.overlap
    assert len(agent.trainable_variables) > 0


def test_the_expected_configs_are_shipped():
    assert {"atari/vtrace", "atari/vtrace_pong", "atari/vtrace_deep", "catch/vtrace"} <= set(
        experiment.shipped_configs()
    )


def test_parameters_win_over_files_and_a_later_load_forgets_them():
    changed = experiment.load(["catch/vtrace"], ["Optimizer.learning_rate = 0.5", "Catch.rows = 7"])
    assert changed.optimizer.learning_rate == 0.5
    assert changed.env.rows == 7
    assert experiment.load(["catch/vtrace"]).env.rows == 10


def test_a_gin_file_by_path(tmp_path):
    file = tmp_path / "mine.gin"
    file.write_text("include 'catch/vtrace.gin'\nExperiment.batch_size = 3\n")
    assert experiment.load([str(file)]).batch_size == 3


def test_settings_survive_json_and_differences_are_named():
    before = json.loads(json.dumps(experiment.load(["catch/vtrace"]).to_json()))
    same = json.loads(json.dumps(experiment.load(["catch/vtrace"]).to_json()))
    assert experiment.differences(before, same) == []
    other = experiment.load(["atari/vtrace_pong"], ["Experiment.seed = 9"]).to_json()
    found = experiment.differences(before, other)
    assert "env.kind was 'Catch' and is now 'Atari'" in found
    assert "seed was 1 and is now 9" in found


@pytest.mark.parametrize(
    "binding", ["Experiment.total_frames = 9", "Actors.num_actors = 3", "Inference.max_wait_ms = 1.0"]
)
def test_length_and_speed_may_change_when_a_run_is_resumed(binding):
    before = experiment.load(["catch/vtrace"]).to_json()
    after = experiment.load(["catch/vtrace"], [binding]).to_json()
    assert before != after
    assert experiment.differences(before, after) == []
