"""Every benchmark through the command line, in a smoke run; how fast anything is, is not for a test."""

import json
import subprocess
import sys

import pytest

from seed_rl.bench import command
from seed_rl.bench.command import BENCHMARKS
from seed_rl.launch.cli import main

WIDEST = 100

# What the table of a smoke run has to show, and a value in its JSON that was measured in two repeats at the most.
EXPECTED = {
    "env": (["catch", "pong", "frames/s"], lambda result: result["suites"][0]["rates"][0]["agent_steps"]),
    "transport": (["messages/s", "left out", "8 x 4", "plain copy"], lambda result: result["server"][0]["messages"]),
    "act": (["shallow", "float32", "XLA"], lambda result: result["act"][0]["ratio"]),
    "train": (["shallow", "GFLOP/s"], lambda result: result["updates"][0]["utilisation"]),
    "replay": (
        ["1,000", "sample, ms", "bytes per sequence"],
        lambda result: result["sizes"][0]["milliseconds"]["read"],
    ),
    "streams": (["alone", "beside 4 idle streams", "ratio"], lambda result: result["ratio"]),
    "end_to_end": (["catch/vtrace", "share of", "ceiling"], lambda result: result["runs"][0]["efficiency"]),
}


def test_every_benchmark_is_tested():
    assert set(EXPECTED) == set(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_smoke_run_prints_a_table_and_writes_json(name, capsys, tmp_path):
    assert main(["bench", name, "--quick", f"--output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    words, measured = EXPECTED[name]
    assert all(word in out for word in words), out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= WIDEST

    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert content["benchmark"] == name
    assert content["command"].startswith(f"seed_rl bench {name} --quick")
    assert content["arguments"]["quick"] is True
    assert set(content) >= {"version", "commit", "python", "libraries", "hardware", "date"}
    value = measured(content["result"])
    assert min(value["repeats"]) > 0
    assert min(value["repeats"]) <= value["median"] <= max(value["repeats"])
    assert command.benchmark(name).table(content["result"]) in out, "the table can be made from the file again"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_shows_flags_and_how_it_measures(name, capsys):
    assert main(["bench", name, "--help"]) == 0
    out = capsys.readouterr().out
    doc = command.benchmark(name).__doc__
    assert doc is not None
    assert doc.strip() in out
    assert "--quick" in out
    assert "--repeats" in out


def test_the_overview_has_a_line_for_each_and_needs_no_tensorflow():
    probe = "import sys; from seed_rl.launch.cli import main; main(['bench']); assert 'tensorflow' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    for name, summary in BENCHMARKS.items():
        assert any(line.split() == [name, *summary.split()] for line in out.splitlines()), name
    assert f"example: {command.EXAMPLE}" in out


def test_several_run_one_after_the_other_in_processes_of_their_own(capsys, monkeypatch):
    commands = []

    def run(arguments, check):
        commands.append(arguments)
        return subprocess.CompletedProcess(arguments, returncode=3 if "env" in arguments else 0)

    monkeypatch.setattr(command.subprocess, "run", run)
    assert main(["bench", "replay", "env", "act", "--quick"]) == 3
    bench = [sys.executable, "-m", "seed_rl", "bench"]
    assert commands == [[*bench, name, "--quick"] for name in ("replay", "env", "act")]
    commands.clear()
    assert main(["bench", "all"]) == 3
    assert [arguments[-1] for arguments in commands] == list(BENCHMARKS)


def test_flags_win_over_those_of_a_smoke_run():
    assert command.parse("env", ["--quick"]).threads == [1]
    assert command.parse("env", ["--quick", "--threads=3,2"]).threads == [3, 2]


def test_an_environment_that_is_not_installed_is_named_in_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "seed_rl.envs.football.engine", None)
    assert main(["bench", "env", "--quick", "--suites=football,catch", f"--output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "football: the gfootball package can't be used here" in out
    assert "catch" in out


def test_a_wrong_experiment_is_refused(capsys, tmp_path):
    assert main(["bench", "end_to_end", "--gin_file=catch/vtracy", f"--output={tmp_path}"]) == 2
    assert "no gin file 'catch/vtracy'" in capsys.readouterr().err
