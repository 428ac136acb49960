"""Every benchmark through the command line, in a smoke run. Speed is not for a test."""

import importlib
import json
import statistics
import subprocess
import sys

import pytest

from benchmarks import BenchmarkError, end_to_end, time_to_score
from benchmarks.__main__ import ALL, BENCHMARKS, main, parse
from benchmarks.experiments import Recipe
from seed_rl.experiment import config_files
from seed_rl.studies.sweep import Sweep
from seed_rl.transport.codec import StepCodec

WIDEST = 100

# Words of the table of a smoke run, and a measured value of its JSON.
EXPECTED = {
    "env": (["catch", "pong", "frames/s"], lambda result: result["suites"][0]["rates"][0]["agent_steps"]),
    "transport": (["messages", "wire", "memory"], lambda result: result["server"][0]["server_thread_us"]),
    "act": (["shallow", "float32", "XLA"], lambda result: result["act"][0]["ratio"]),
    "train": (["shallow", "GFLOP/s"], lambda result: result["updates"][0]["utilisation"]),
    "replay": (["1,000", "sample, ms", "round, ms"], lambda result: result["sizes"][0]["milliseconds"]["read"]),
    "serve": (["clients", "p99"], lambda result: result["rows"][0]["share"]),
    "load": (["acting and learning, 5 ms", "p99", "answered"], lambda result: result["rows"][0]["observations"]),
    "end_to_end": (["catch", "share of", "ceiling"], lambda result: result["runs"][0]["efficiency"]),
    "time_to_score": (["catch/vtrace", "M frames"], lambda result: result["experiments"][0]["env_steps"]),
}


def check_transport(result):
    from benchmarks.transport import ENV_SPEC

    for row in result["server"]:
        messages, size = row["messages"]["median"], row["group_size"]
        assert row["observations"]["median"] == pytest.approx(size * messages, rel=1e-4)
        nbytes = StepCodec(ENV_SPEC, size).payload_bytes
        assert row["megabytes"]["median"] == pytest.approx(messages * nbytes / 1e6, rel=1e-4)


def check_replay(result):
    for size in result["sizes"]:
        repeats = [each["repeats"] for each in size["milliseconds"].values()]
        assert [sum(parts) for parts in zip(*repeats[:-1], strict=True)] == pytest.approx(repeats[-1], rel=1e-4)


def check_load(result):
    few, many = result["rows"]
    assert (few["actors"], few["streams"], few["environments"], few["offered"]) == (2, 2, 4, 800)
    assert (many["actors"], many["offered"]) == (4, 1600)
    for row in result["rows"]:
        # Environments wait for their actions, and step times vary by 30 %.
        assert row["observations"]["median"] < 1.3 * row["offered"]
        assert row["p50"]["median"] <= row["p90"]["median"] <= row["p99"]["median"]


def check_end_to_end(result):
    (run,) = result["runs"]
    median = {name: run[name]["median"] for name in ("env", "act", "train", "end_to_end", "ceiling", "efficiency")}
    assert median["ceiling"] == pytest.approx(
        1 / (1 / median["env"] + 1 / median["act"] + 1 / median["train"]), rel=1e-4
    )
    assert median["efficiency"] == pytest.approx(median["end_to_end"] / median["ceiling"], rel=1e-4)


CHECKS = {"transport": check_transport, "replay": check_replay, "load": check_load, "end_to_end": check_end_to_end}


def run(*words):
    """The exit code of the command line."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize(
    "name", [name for name in BENCHMARKS if name not in ("env", "replay", "compile_for", "time_to_score", "atari")]
)
def test_a_smoke_run_prints_a_table_and_writes_json(name, capfd, tmp_path):
    assert run(name, "--quick", f"--output={tmp_path}") == 0
    check_report(name, capfd.readouterr().out, tmp_path)


def test_several_run_one_after_the_other(capfd, tmp_path):
    assert run("env", "replay", "--quick", f"--output={tmp_path}") == 0
    tables = capfd.readouterr().out.split("\nreplay: ")
    for name, table in zip(("env", "replay"), tables, strict=True):
        check_report(name, table, tmp_path)


def test_runs_to_a_score_are_recorded_and_not_repeated(capfd, tmp_path, monkeypatch):
    def train(sweep, stopped, say):
        (trial,) = sweep._wanted
        config_files.save_config(config_files.load(["catch/vtrace"], trial.bindings), sweep.path(trial))
        with open(sweep.path(trial, "metrics.jsonl"), "w", encoding="utf-8") as file:
            row = {"env_frames": 100, "seconds": 9.0, "episodes": 200, "episode_return": 0.5}
            file.write(f"{json.dumps(row)}\n")

    monkeypatch.setattr(Sweep, "run", train)
    monkeypatch.setattr(time_to_score, "_ENV_SECONDS", 0.05)
    command = ["time_to_score", "--quick", f"--output={tmp_path}", "--grid=VTrace.hidden=32"]
    assert run(*command) == 0
    check_report("time_to_score", capfd.readouterr().out, tmp_path)
    first = json.loads((tmp_path / "time_to_score.json").read_text())["result"]
    (experiment,) = first["experiments"]
    (row,) = experiment["runs"]
    assert experiment["settings"] == ["VTrace.hidden = 32"]
    assert (row["seed"], row["reached"][1], len(row["starts"])) == (1, None, 1), "a return of 2 can't be reached"
    (curve,) = tmp_path.glob("*.csv")
    assert curve.read_text().splitlines()[-1].startswith(f"{row['frames']},")
    assert run(*command) == 0
    assert json.loads((tmp_path / "time_to_score.json").read_text())["result"] == first

    changed = next(tmp_path.glob("**/config.json"))
    changed.write_text(changed.read_text().replace('"agent.hidden": 32', '"agent.hidden": 33'))
    assert run(*command) == 1
    assert "holds a run with another configuration: agent.hidden was 33 and is now 32" in capfd.readouterr().err


def check_report(name, out, directory):
    """A report's table, file and values."""
    words, measured = EXPECTED[name]
    assert all(word in out for word in words), out
    assert max(len(line) for line in out.splitlines() if str(directory) not in line) <= WIDEST
    content = json.loads((directory / f"{name}.json").read_text())
    assert content["benchmark"] == name
    assert content["command"].startswith(f"scripts/bench.sh {name} --quick")
    assert content["arguments"]["quick"] is True
    value = measured(content["result"])
    repeats = value["repeats"] if isinstance(value, dict) else [value]
    assert 0 < min(repeats) <= statistics.median(repeats) <= max(repeats)
    table = importlib.import_module(f"benchmarks.{name}").table(content["result"])
    assert table in out, "the table can be made from the file again"
    CHECKS.get(name, lambda result: None)(content["result"])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_shows_flags_and_how_it_measures(name, capsys):
    assert run(name, "--help") == 0
    out = capsys.readouterr().out
    assert sys.modules[f"benchmarks.{name}"].__doc__.strip() in out
    assert "--quick" in out
    assert any(flag in out for flag in ("--repeats", "--seeds", "--programs"))


def test_the_overview_has_a_line_for_each_and_needs_no_tensorflow():
    probe = "import sys; from benchmarks.__main__ import main; main([]); assert 'tensorflow' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    for name, summary in BENCHMARKS.items():
        assert any(line.split() == [name, *summary.split()] for line in out.splitlines()), name


def test_flags_win_over_those_of_a_smoke_run():
    assert parse("env", ["--quick"]).threads == [1]
    assert parse("env", ["--quick", "--threads=3,2"]).threads == [3, 2]
    assert parse("load", ["--quick", "--gin_file=atari/vtrace"]).gin_file == "atari/vtrace"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["latency"], 2, f"bench: unknown benchmark 'latency'; benchmarks are {', '.join(BENCHMARKS)} and {ALL}"),
        (["env", "--sweets=catch"], 2, "unrecognized arguments: --sweets=catch"),
        (["env", "replay", "--threads=1"], 2, "scripts/bench.sh replay: unrecognized arguments: --threads=1"),
        (["env", "--suites=catch,tetris"], 2, "argument --suites: unknown name 'tetris'"),
        (["load", "--actors=16,x"], 2, "must be a whole number, got 'x'"),
        (["load", "--actors=0"], 2, "must be at least 1, got 0"),
        (["load", "--step_ms=nan"], 2, "must be at least 0.0, got nan"),
        (["end_to_end", "--gin_file=catch/vtracy"], 1, "bench: end_to_end: no gin file 'catch/vtracy'"),
        (["replay", "--output=file"], 1, "bench: replay: --output file can't be used: File exists"),
    ],
)
def test_a_mistake_gets_a_sentence(words, code, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert run(*words) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_an_environment_that_is_not_installed_is_named_in_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "seed_rl.envs.football.engine", None)
    assert run("env", "--quick", "--suites=football,catch", f"--output={tmp_path}") == 0
    out = capsys.readouterr().out
    assert "football: the gfootball package can't be used here" in out
    assert "catch" in out


def test_a_run_that_dies_is_reported_with_its_last_words():
    arguments = parse("end_to_end", ["--quick"])
    with pytest.raises(BenchmarkError, match="seed_rl train failed: no gin file 'catch/vtracy'"):
        end_to_end.run_rate(Recipe("catch/vtracy"), arguments)
