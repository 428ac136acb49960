import dataclasses
import importlib
import json
import sys

import pytest

from seed_rl.experiment import ConfigError, config_files, saved_config

_ALIKE = (
    "atari/r2d2_pong",
    "atari/smoke",
    "dmlab/lasertag",
    "dmlab/rooms",
    "football/run_to_score",
    "football/self_play",
    "football/vtrace_checkpoints",
    "football/vtrace_medium",
    "football/vtrace_scoring",
    "gym/memory",
    "mujoco/sac_hopper",
    "mujoco/sac_walker",
    "pettingzoo/tic_tac_toe",
)

DISTINCT = [name for name in config_files.shipped_configs() if not name.startswith(_ALIKE)]
"""Shipped experiments, without those that differ from another only in sizes, costs and rewards."""


@pytest.mark.parametrize("name", DISTINCT)
def test_every_shipped_config_builds_its_agent_and_comes_back_from_a_log_directory(name, tmp_path):
    loaded = config_files.load([name])
    loaded.build_agent()
    changed = dataclasses.replace(loaded, batch_size=2 * loaded.batch_size)  # not known to gin
    config_files.save_config(changed, str(tmp_path))
    assert config_files.load([str(tmp_path / "config.gin")]) == saved_config.load_saved(str(tmp_path)) == changed
    assert config_files.differences_from_saved(changed, str(tmp_path)) == []


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
    harder = config_files.load(["catch/r2d2"], ["Actors.num_eval_envs = 16", 'Actors.eval_options = {"rows": 12}'])
    (difference,) = config_files.differences_from_saved(harder, str(tmp_path))
    assert difference.startswith("actors.eval_options was "), "its scores would be compared with the earlier ones"
    other = config_files.load(["memory/r2d2"])
    assert "env was 'Catch' and is now 'Memory'" in config_files.differences_from_saved(other, str(tmp_path))
    vtrace = ["import seed_rl.agents.vtrace", "Experiment.replay = None", "Experiment.agent = @VTrace()"]
    without = config_files.load(["catch/r2d2"], vtrace)
    assert "replay was 'Replay' and is now None" in config_files.differences_from_saved(without, str(tmp_path))
    config_files.save_config(without, str(tmp_path))
    assert "replay was None and is now 'Replay'" in config_files.differences_from_saved(before, str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"env.kind": "Popen"}, "env.kind"),
        ({"seed": "1"}, "Experiment.seed"),
        ({"env.novelty": 1, "novelty": {}}, "'env.novelty', 'novelty'"),
        ({"agent.core": "antigravity:Core"}, "--import_module=antigravity"),
        (None, "Expecting value"),
    ],
)
def test_saved_settings_that_cannot_be(changes, named, tmp_path):
    settings = config_files.load(["catch/vtrace"]).to_json()
    (tmp_path / "config.json").write_text('{"seed":' if changes is None else json.dumps(settings | changes))
    with pytest.raises(ConfigError, match=f"^{tmp_path}/config.json .*{named}"):
        saved_config.load_saved(str(tmp_path))


def test_modules_outside_of_the_library_are_named_by_the_reader(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = config_files.load(["gym/any"], ["Gym.id = 'stranger:Env-v0'", "VTrace.core = 'stranger:Core'"])
    config_files.save_config(loaded, str(tmp_path))
    with pytest.raises(ConfigError, match="'stranger', which needs --import_module=stranger"):
        saved_config.load_saved(str(tmp_path))
    assert "stranger" not in sys.modules
    assert saved_config.modules_needed(loaded) == ["stranger"]
    importlib.import_module("stranger")
    assert saved_config.load_saved(str(tmp_path)) == loaded


@pytest.mark.parametrize("setting", ["optimizer.name", "replay.sampler"])
def test_only_a_learner_imports_the_modules_of_its_optimizer_and_its_replay(setting, tmp_path):
    settings = config_files.load(["catch/r2d2"]).to_json() | {setting: "antigravity:Class"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    saved_config.load_saved(str(tmp_path))
    with pytest.raises(ConfigError, match="'antigravity', which needs --import_module=antigravity"):
        saved_config.load_saved(str(tmp_path), own=True)
    assert "antigravity" not in sys.modules


def test_another_agent_keeps_network_and_task_and_brings_its_own_way_of_learning():
    before, after = config_files.load("memory/r2d2"), config_files.load("memory/r2d2", agent="ppo")
    kept = (before.env, before.actors, "lstm", 32)
    assert (after.env, after.actors, after.agent.core, after.agent.core_units) == kept
    assert (after.replay, after.passes, after.batch_size) == (None, 10, before.actors.num_training_envs)
    after = config_files.load("gym/pendulum", ["SAC.n_steps = 3"], agent="sac")
    assert (after.agent.discount, after.agent.hidden, after.agent.reward_scale) == (0.95, 64, 0.03)
    assert (after.agent.n_steps, after.replay.sampler, after.batch_size) == (3, "uniform", 256)
    assert config_files.load("gym/any", agent="vtrace") == config_files.load("gym/any")
    optimizers = [config_files.load(file, agent="vtrace").optimizer for file in ("atari/r2d2_fast", "gym/pendulum")]
    assert optimizers[0] == optimizers[1], "as a whole"
    assert config_files.load("dmlab/small", agent="pqn").batch_size == 8, "a multiple of PQN's minibatches"


@pytest.mark.parametrize("agent", config_files.agents())
def test_every_agent_can_stand_in_a_file_without_one(agent, tmp_path):
    (tmp_path / "mine.gin").write_text("import seed_rl.envs.gym\nExperiment.env = @Gym()")
    assert type(config_files.load(str(tmp_path / "mine.gin"), agent=agent).agent).__name__.lower() == agent


CATCH = "include 'catch/vtrace.gin'"
R2D2 = "include 'catch/r2d2.gin'"
EVAL = f"{R2D2}\nActors.eval_options"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{CATCH}\nExperiment.minibatches = 3", "Experiment.batch_size"),
        (f"{CATCH}\nExperiment.replay = @Replay()", "Experiment.replay must be None"),
        (f"{CATCH}\nActors.num_eval_envs = 32", "Actors.num_eval_envs"),
        (f"{EVAL} = '{{}} '", "Actors.num_eval_envs must be a multiple of Actors.envs_per_group .16. .*, got 4"),
        (f"{EVAL} = '{{\"row\": 1}}'\nActors.num_eval_envs = 16", "suite 'catch' has no option row"),
        (
            f"{EVAL} = '{{\"rows\": {{}}}}'\nActors.num_eval_envs = 16",
            "eval_options can't be .* Catch.rows must be int",
        ),
        (f"{R2D2}\nExperiment.replay = None", "Experiment.replay must be @Replay"),
        (f"{R2D2}\nReplay.min_size = 5001", "Replay.min_size"),
        (f"{CATCH}\nVTrace.unroll_length = 100000000", "takes 1,600,000,000 frames"),
        (f"{R2D2}\nExperiment.total_frames = 2000", "takes 2,000 frames"),
        (f"{CATCH}\nOptimizer.betas = (0.9,", "^[^(]*multi-line statement"),
        (f"{CATCH}\nVtrace.hidden = 7", "matching 'Vtrace'.*once a file or binding imports its module"),
        (f"{CATCH}\nOptimizer.name = {{'a': false}}", "token 'false'.*mine.gin, line 2"),
        (f"{CATCH}\n\nVTrace.discont = 1", r"'discont'.* \(.*mine.gin, line 3\)$"),
        (f"{CATCH}\nVTrace.discount = %nope", "^%nope has no value"),
        (f"{CATCH}\nnowhere/VTrace.discount = 0.5", "^nowhere/VTrace.discount has no effect"),
        (f"{CATCH}\nunroll_length = 40", r"^unroll_length has no effect.* Did you mean VTrace.unroll_length\?$"),
        ("Experiment.total_frames = 7", "^Experiment.env and Experiment.agent must be set"),
        (f"{CATCH}\nExperiment.agent = @VTrace", r"^Experiment.agent must be AgentConfig, got .*@VTrace\(\)"),
        (f"{CATCH}\nimport tests_that_exit", r"SystemExit: 4 \(tests_that_exit.py, line 1"),
        ("include 'mine.gin'", "mine.gin includes itself"),
        ("include 'folder'", "folder"),
    ],
)
def test_a_file_that_cannot_be_meant_is_one_line_that_names_the_mistake(text, named, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "tests_that_exit.py").write_text("raise SystemExit(4)")
    (tmp_path / "mine.gin").write_text(text)
    with pytest.raises(ConfigError, match=named) as error:
        config_files.load(str(tmp_path / "mine.gin"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("binding", ["VTrace.hidden = 64", "Atari.game = pong", "Gym.options = {bad"])
def test_a_binding_without_effect_or_sense_is_quoted(binding):
    with pytest.raises(ConfigError, match=f"^'{binding}'"):
        config_files.load("gym/any", ["import seed_rl.envs.atari", binding], agent="ppo")


def test_a_file_may_begin_with_a_byte_order_mark_includes_files_beside_it_and_is_forgotten(tmp_path):
    (tmp_path / "base.gin").write_text(f"{CATCH}\nExperiment.total_frames = 1e6\nCatch.rows = 7", encoding="utf-8-sig")
    (tmp_path / "mine.gin").write_text("include 'base.gin'", encoding="utf-8-sig")
    loaded = config_files.load(str(tmp_path / "mine.gin"), ["Catch.columns = 9"])
    assert (loaded.total_frames, loaded.env.rows, loaded.env.columns) == (1_000_000, 7, 9)
    assert config_files.load(["catch/vtrace"]).env.rows == 10


def test_a_macro_may_be_overridden_where_it_is_used(tmp_path):
    (tmp_path / "base.gin").write_text(
        f"{CATCH}\nrate = 0.5\nsize = 64\nOptimizer.learning_rate = %rate\nVTrace.hidden = %size"
    )
    (tmp_path / "mine.gin").write_text("include 'base.gin'\nOptimizer.learning_rate = 0.25")
    changed = config_files.load(str(tmp_path / "mine.gin"), ["VTrace.hidden = 32"])
    assert (changed.optimizer.learning_rate, changed.agent.hidden) == (0.25, 32)
    assert config_files.load(str(tmp_path / "base.gin"), ["size = 16"]).agent.hidden == 16


def test_evaluation_environments_have_the_others_settings_but_those_that_are_theirs(tmp_path):
    options = 'Actors.eval_options={"options": {"g": 9}, "keys": ["state"], "id": "stranger:Pendulum-v0"}'
    changes = [options, "Actors.num_eval_envs = 16", 'Gym.options={"g": 1, "h": 2}', "Gym.frame_size = 7"]
    loaded = config_files.load("gym/any", changes)
    assert loaded.eval_env == dataclasses.replace(
        loaded.env, options='{"g": 9, "h": 2}', keys=("state",), id="stranger:Pendulum-v0"
    )
    assert saved_config.modules_needed(loaded) == ["stranger"]
    cache = 'Actors.eval_options = {"level_cache": "/somewhere"}'
    with pytest.raises(ConfigError, match="level_cache names a place"):
        config_files.load("dmlab/small", [cache, "Actors.num_eval_envs = 4", "Actors.envs_per_group = 4"])


def test_bindings_may_be_written_as_on_a_command_line():
    bindings = ["Experiment.total_frames = 300k", 'Gym.options={"g": 1, "h": false}', "Replay.capacity=2m"]
    loaded = config_files.load("gym/sac_pendulum", bindings)
    assert (loaded.total_frames, loaded.replay.capacity) == (300_000, 2_000_000)
    assert loaded.env.options == '{"g": 1, "h": false}'
