import dataclasses
import json
import sys

import pytest

from seed_rl import experiment
from seed_rl.envs import registry
from seed_rl.experiment import config_files, saved_config
from tests.support.shipped import DISTINCT


@pytest.mark.parametrize("name", DISTINCT)
def test_every_shipped_config_builds_its_agent_and_comes_back_from_a_log_directory(name, tmp_path):
    loaded = config_files.load([name])
    agent = loaded.build_agent()
    assert agent.length == agent.unroll_length + agent.overlap
    assert len(agent.model.trainable_variables) > 0
    changed = dataclasses.replace(loaded, batch_size=2 * loaded.batch_size)  # not known to gin
    config_files.save_config(changed, str(tmp_path))
    assert config_files.load([str(tmp_path / "config.gin")]) == saved_config.load_saved(str(tmp_path)) == changed
    assert config_files.differences_from_saved(changed, str(tmp_path)) == []


def test_parameters_win_over_files_and_a_later_load_forgets_them():
    changed = config_files.load(["catch/vtrace"], ["Optimizer.learning_rate = 0.5", "Catch.rows = 7"])
    assert changed.optimizer.learning_rate == 0.5
    assert changed.env.rows == 7
    assert config_files.load(["catch/vtrace"]).env.rows == 10


def test_length_speed_and_placement_may_change_when_a_run_is_resumed_and_nothing_else(tmp_path):
    before = config_files.load(["catch/r2d2"])
    config_files.save_config(before, str(tmp_path))
    bindings = ["Experiment.total_frames = 9M", "Actors.num_actors = 3", "Inference.max_wait_ms = 1.0"]
    bindings += ["R2D2.dtype = 'auto'"]
    after = config_files.load(["catch/r2d2"], [*bindings, "Replay.placement = 'host'", "Replay.snapshot = True"])
    assert before != after
    assert config_files.differences_from_saved(after, str(tmp_path)) == []
    linear = config_files.load(["catch/r2d2"], [*bindings, "Optimizer.schedule = 'linear'"])
    assert config_files.differences_from_saved(linear, str(tmp_path)) == [
        "optimizer.schedule was 'constant' and is now 'linear'",
        "total_frames was 100000 and is now 9000000 (the linear schedule of the learning rate depends on it)",
    ]
    other = config_files.load(["memory/r2d2"])
    assert "env was 'Catch' and is now 'Memory'" in config_files.differences_from_saved(other, str(tmp_path))
    without = config_files.load(["catch/r2d2"], ["Experiment.replay = None", "Experiment.agent = @VTrace()"])
    assert "replay was 'Replay' and is now None" in config_files.differences_from_saved(without, str(tmp_path))
    config_files.save_config(without, str(tmp_path))
    assert "replay was None and is now 'Replay'" in config_files.differences_from_saved(before, str(tmp_path))


def test_a_saved_configuration_that_is_none_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"seed":')
    for read in (
        lambda: config_files.differences_from_saved(config_files.load(["catch/vtrace"]), str(tmp_path)),
        lambda: saved_config.load_saved(str(tmp_path)),
    ):
        with pytest.raises(experiment.ConfigError, match=f"^{tmp_path}/config.json can't be read: Expecting value: li"):
            read()


def saved(directory, **changes):
    settings = config_files.load(["catch/vtrace"]).to_json() | changes
    (directory / "config.json").write_text(json.dumps(settings))
    return str(directory)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env.kind": "Popen"}, "env.kind is 'Popen', but no class of this name is known here: if it is your own"),
        ({"seed": "1"}, "Experiment.seed must be int, got '1'"),
        ({"env.novelty": 1, "novelty": {}}, "unknown setting 'env.novelty', 'novelty'"),
        ({"agent.core": "antigravity:Core"}, "it names the module 'antigravity', which needs --import_module=antig"),
    ],
)
def test_saved_settings_that_cannot_be_are_named(changes, reason, tmp_path):
    with pytest.raises(experiment.ConfigError, match=f"^{tmp_path}/config.json can't be used: {reason}"):
        saved_config.load_saved(saved(tmp_path, **changes))


def test_saved_settings_without_a_newer_one_have_its_default(tmp_path):
    settings = config_files.load(["catch/vtrace"], ["Experiment.seed = 5"]).to_json()
    del settings["batch_size"], settings["agent.discount"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    loaded = saved_config.load_saved(str(tmp_path))
    assert (loaded.seed, loaded.batch_size, loaded.agent.discount) == (5, 32, 0.99)


def test_what_this_machine_chose_is_saved_for_readers_and_nobody_else(tmp_path):
    loaded = config_files.load(["catch/vtrace"], ["VTrace.dtype = 'auto'"])
    config_files.save_config(loaded, str(tmp_path), {"agent.dtype": "float32"})
    assert saved_config.saved_settings(str(tmp_path))["agent.dtype.chosen"] == "float32"
    assert saved_config.load_saved(str(tmp_path)) == loaded


def test_modules_outside_of_the_library_are_named_by_the_reader(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = config_files.load(["gym/any"], ["Gym.id = 'stranger:Env-v0'", "VTrace.core = 'stranger:Core'"])
    config_files.save_config(loaded, str(tmp_path))
    with pytest.raises(experiment.ConfigError, match="'stranger', which needs --import_module=stranger"):
        saved_config.load_saved(str(tmp_path))
    assert "stranger" not in sys.modules
    assert saved_config.modules_needed(loaded) == ["stranger"]
    registry.permit("stranger")
    assert saved_config.load_saved(str(tmp_path)) == loaded


def test_native_code_is_loaded_from_permitted_directories_alone_and_nothing_is_written(tmp_path):
    simulator = str(tmp_path / "simulator")
    bindings = [f"DMLab.runfiles_path = '{simulator}'", "DMLab.level_cache = '/somewhere'"]
    config_files.save_config(config_files.load(["dmlab/vtrace"], bindings), str(tmp_path))
    with pytest.raises(experiment.ConfigError, match=f"'{simulator}/', which needs --import_module={simulator}/"):
        saved_config.load_saved(str(tmp_path))
    registry.permit(simulator)
    env = saved_config.load_saved(str(tmp_path)).env
    assert (env.runfiles_path, env.level_cache) == (simulator, "")


def test_another_agent_keeps_network_and_task_and_brings_its_own_way_of_learning():
    before, after = config_files.load("memory/r2d2"), config_files.load("memory/r2d2", agent="ppo")
    kept = (before.env, before.actors, "lstm", 32)
    assert (after.env, after.actors, after.agent.core, after.agent.core_units) == kept
    assert (after.replay, after.passes, after.batch_size) == (None, 10, before.actors.num_training_envs)
    after = config_files.load("gym/pendulum", ["SAC.n_steps = 3"], agent="sac")
    assert (after.agent.discount, after.agent.hidden, after.agent.reward_scale) == (0.95, 64, 0.03)
    assert (after.agent.n_steps, after.replay.sampler, after.batch_size) == (3, "uniform", 256)
    assert config_files.load("gym/any", agent="vtrace") == config_files.load("gym/any")
    assert config_files.load("dmlab/small", agent="pqn").batch_size == 8, "a multiple of PQN's minibatches"


@pytest.mark.parametrize("agent", config_files.agents())
def test_every_agent_can_stand_in_a_file_without_one(agent, tmp_path):
    (tmp_path / "mine.gin").write_text("import seed_rl.envs.gym\nExperiment.env = @Gym()")
    assert type(config_files.load(str(tmp_path / "mine.gin"), agent=agent).agent).__name__.lower() == agent


def test_a_setting_of_something_else_has_no_effect_and_is_refused():
    for binding in ("VTrace.hidden = 64", "Atari.game = pong"):
        with pytest.raises(experiment.ConfigError, match=f"^'{binding}' has no effect: .*PPO.*, but no {binding[:5]}"):
            config_files.load("gym/any", ["import seed_rl.envs.atari", binding], agent="ppo")


VTRACE, R2D2 = "catch/vtrace", "catch/r2d2"


@pytest.mark.parametrize(
    ("config", "binding", "message"),
    [
        (VTRACE, "Experiment.minibatches = 3", r"minibatches \(3\) must divide Experiment.batch_size \(16\)"),
        (VTRACE, "Experiment.replay = @Replay()", "VTrace learns from fresh unrolls: .*replay must be None"),
        (
            VTRACE,
            "Actors.num_eval_envs = 32",
            r"Actors.num_eval_envs \(32\) must be smaller than the number of environments \(32\)",
        ),
        (R2D2, "Experiment.replay = None", r"R2D2 needs a replay: Experiment.replay must be @Replay\(\)"),
        (R2D2, "Replay.min_size = 5001", r"Replay.min_size \(5001\) must not exceed Replay.capacity \(5000\)"),
        (VTRACE, "Optimizer.betas = (0.9,", r"^'Optimizer.betas = \(0.9,': .*EOF in multi-line statement"),
        ("gym/any", "Gym.options = {bad", "Failed to parse token 'bad'"),
        (VTRACE, "Vtrace.hidden = 7", "No configurable matching 'Vtrace'.*once a file or binding imports its module"),
        (
            VTRACE,
            "VTrace.unroll_length = 100000000",
            r"a batch \(Experiment.batch_size\) takes 1,600,000,000 frames, and Experiment.total_frames is 300,000",
        ),
        (
            R2D2,
            "Experiment.total_frames = 2000",
            "to Replay.min_size takes 2,000 frames, and Experiment.total_frames is 2,000",
        ),
    ],
)
def test_impossible_settings_are_named_on_one_line(config, binding, message):
    with pytest.raises(experiment.ConfigError, match=message) as error:
        config_files.load([config], [binding])
    assert "\n" not in str(error.value)


CATCH = "include 'catch/vtrace.gin'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("include 'mine.gin'", "mine.gin includes itself"),
        ("include 'folder'", "Unable to open file: folder"),
        (f"{CATCH}\nVTrace.discont = 1\n", r"named 'discont'.* \(.*mine.gin, line 3\)$"),
        (f"{CATCH}Optimizer.name = {{'a': false}}", "Failed to parse token 'false'.*mine.gin, line 2"),
        (f"{CATCH}VTrace.discount = %nope", "No bindings specified for 'nope/gin.macro'"),
        (
            f"{CATCH}import tests_that_exit",
            r"imports a module that exits the program: SystemExit: 4 \(tests_that_exit.py, line 1",
        ),
        (
            f"{CATCH}nowhere/VTrace.discount = 0.5",
            "^nowhere/VTrace.discount has no effect: nothing refers to this scope",
        ),
    ],
)
def test_a_file_that_cannot_be_meant_is_a_sentence(text, message, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "tests_that_exit.py").write_text("raise SystemExit(4)")
    (tmp_path / "mine.gin").write_text(text)
    with pytest.raises(experiment.ConfigError, match=message):
        config_files.load(str(tmp_path / "mine.gin"))


def test_a_file_may_begin_with_a_byte_order_mark_and_includes_files_beside_it(tmp_path):
    (tmp_path / "base.gin").write_text(f"{CATCH}Experiment.total_frames = 1e6\nCatch.rows = 7", encoding="utf-8-sig")
    (tmp_path / "mine.gin").write_text("include 'base.gin'", encoding="utf-8-sig")
    loaded = config_files.load(str(tmp_path / "mine.gin"))
    assert (loaded.total_frames, loaded.env.rows) == (1_000_000, 7)


def test_bindings_may_be_written_as_on_a_command_line():
    bindings = ["Experiment.total_frames = 300k", 'Gym.options={"g": 1, "h": false}', "Replay.capacity='2M'"]
    loaded = config_files.load("gym/sac_pendulum", bindings)
    assert (loaded.total_frames, loaded.replay.capacity) == (300_000, 2_000_000)
    assert loaded.env.options == '{"g": 1, "h": false}'
