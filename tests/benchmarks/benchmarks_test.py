"""Every benchmark through the command line, in a smoke run. Speed is not for a test."""

import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.__main__ import ALL, APART, BENCHMARKS, main, parse
from benchmarks.runs import BenchmarkRun
from seed_rl.experiment import config_files

WIDEST = 100

WORDS = {
    "env": ["catch", "frames/s"],
    "transport": ["messages", "wire", "memory"],
    "act": ["shallow", "float32", "XLA"],
    "load": ["acting and learning, 5 ms", "p99", "answered"],
    "end_to_end": ["catch", "share of", "ceiling"],
    "time_to_score": ["catch/vtrace", "M frames"],
}
"""Words of the table of a smoke run."""
SMALLER = {
    "env": ["--suites=catch"],
    "load": ["--actors=2"],
    "transport": ["--group_sizes=4"],
    "end_to_end": ["--gin_param=Actors.envs_per_group=1", "--gin_param=Inference.max_batch_size=1"],
}
"""Flags that leave out most of a smoke run."""


def run(*words):
    """The exit code of the command line."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in APART])
def test_a_smoke_run_prints_a_table_and_writes_json(name, capfd, tmp_path):
    assert run(name, "--quick", f"--output={tmp_path}", *SMALLER.get(name, ())) == 0
    check_report(name, capfd.readouterr().out, tmp_path)


def test_several_run_in_processes_one_after_the_other_even_after_a_failure(monkeypatch):
    started = []

    def start(command, check):
        started.append(command)
        return SimpleNamespace(returncode=3 if "env" in command else 0)

    monkeypatch.setattr("benchmarks.__main__.subprocess", SimpleNamespace(run=start))
    assert run("env", "act", "--quick") == 3
    assert started == [[sys.executable, "-m", "benchmarks", name, "--quick"] for name in ("env", "act")]


def test_runs_to_a_score_are_recorded_and_not_repeated(capfd, tmp_path, monkeypatch):
    def train(run, stopped, say):
        run.begin()
        config_files.save_config(run.experiment, run.logdir)
        with open(f"{run.logdir}/metrics.jsonl", "w", encoding="utf-8") as file:
            row = {"env_frames": 100, "seconds": 9.0, "episodes": 200, "episode_return": 0.5}
            file.write(f"{json.dumps(row)}\n")
        return 0

    monkeypatch.setattr(BenchmarkRun, "train", train)
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


def check_report(name, out, directory):
    """A report's table and file."""
    assert all(word in out for word in WORDS[name]), out
    assert max(len(line) for line in out.splitlines() if str(directory) not in line) <= WIDEST
    content = json.loads((directory / f"{name}.json").read_text(), parse_constant=pytest.fail)
    assert content["benchmark"] == name
    assert content["command"].startswith(f"scripts/bench.sh {name} --quick")
    assert content["arguments"]["quick"] is True
    table = importlib.import_module(f"benchmarks.{name}").table(content["result"])
    assert table in out, "the table can be made from the file again"


def test_the_overview_has_a_line_for_each_and_needs_no_tensorflow():
    command = [sys.executable, "-X", "importtime", "-m", "benchmarks"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "seed_rl.system" in done.stderr
    assert "tensorflow" not in done.stderr
    for name, summary in BENCHMARKS.items():
        assert any(line.split() == [name, *summary.split()] for line in done.stdout.splitlines()), name


def test_flags_win_over_those_of_a_smoke_run():
    assert parse("env", ["--quick"]).threads == [1]
    assert parse("env", ["--quick", "--threads=3,2"]).threads == [3, 2]
    assert parse("load", ["--quick", "--gin_file=atari/vtrace"]).gin_file == "atari/vtrace"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["latency"], 2, f"bench: unknown benchmark 'latency'; benchmarks are {', '.join(BENCHMARKS)} and {ALL}"),
        (["env", "--sweets=catch"], 2, "unrecognized arguments: --sweets=catch"),
        (["env", "--suites=catch,tetris"], 2, "argument --suites: unknown name 'tetris'"),
        (["load", "--actors=0"], 2, "must be at least 1, got 0"),
        (["end_to_end", "--gin_file=catch/vtracy"], 1, "bench: end_to_end: no gin file 'catch/vtracy'"),
        (["env", "--output=file"], 1, "bench: env: --output file can't be used: File exists"),
    ],
)
def test_a_mistake_gets_a_sentence(words, code, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert run(*words) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
