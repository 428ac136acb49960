"""Every benchmark through the command line, in a smoke run; how fast anything is, is not for a test."""

import argparse
import json
import subprocess
import sys

import psutil
import pytest

from benchmarks import command, end_to_end, memory, streams, timing
from benchmarks.command import BENCHMARKS
from benchmarks.failures import MeasurementFailed
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
    "latency": (
        ["null model, 6 streams of 2 environments", "clocked"],
        lambda result: result["models"]["null"]["loads"][0]["achieved"],
    ),
    "fleet": (
        ["actors of 2 environments, 10 ms per step", "flat out", "accelerator"],
        lambda result: result["groups"][0]["rows"][0]["achieved"],
    ),
    "network": (
        ["one actor", "share at 20 ms", "of the local rate at 20 ms"],
        lambda result: result["rows"][0]["delayed"][0]["observations"],
    ),
    "scaling": (["2x2x16", "recorded"], lambda result: result["processes"][0]["frames_per_second"]),
    "memory": (["unrolls", "resident bytes per unroll"], lambda result: result["unrolls"]["rows"][1]["resident_bytes"]),
}


def check_latency(result):
    low, full = (timing.medians(row) for row in result["models"]["null"]["loads"])
    assert full["step_ms"] == 0
    assert full["achieved"] > 2 * low["achieved"]
    # Little's law: with all streams waiting all the time, the rate is what their number and latency make it.
    mean_at_most = 1000 * 6 * 2 / full["achieved"]
    assert 0.3 * mean_at_most < full["p50"] < 2 * mean_at_most
    for row in (low, full):
        assert 0 < row["p50"] <= row["p90"] <= row["p99"] <= row["max"]
        assert row["unanswered"] == 0


def check_fleet(result):
    (group,) = result["groups"]
    row = timing.medians(group["rows"][0])
    assert (row["actors"], row["environments"], row["offered"]) == (6, 12, 1200)
    assert row["achieved"] < 1260
    assert row["updates_per_second"] > 0
    assert 0 < row["batch_fill"] <= 1
    assert row["cores/inference"] > 0
    assert row["file_descriptors"] > 6, "a connection of each actor"
    assert [host["cores"] for host in group["hosts"] if not host["accelerator"]] == [2, 8, 32, 96]


def check_scaling(result):
    assert result["processes"] == result["envs"], "the same layout is measured once"
    (row,) = map(timing.medians, result["envs"])
    assert (row["environments"], row["simulated"], row["rate_ratio"]) == (64, True, 1)
    assert row["learner_pss"] > 10**8
    left = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    assert not [command for command in left if "seed_rl" in command]


def check_memory(result):
    kept = result["unrolls"]
    small, large = kept["rows"]
    assert large["unrolls"] - small["unrolls"] == 2560
    assert large["store_bytes"] - small["store_bytes"] == 2560 * kept["each"]
    assert kept["each"] > 21 * 80 * 80
    assert 0.8 < kept["ratio"] < 1.3


def check_network(result):
    (row,) = result["rows"]
    (delayed,) = row["delayed"]
    assert (row["envs"], row["groups"], row["group_size"]) == (8, 2, 4)
    # A group sends its step once per round trip at the most.
    assert delayed["observations"]["median"] < 1.5 * 8 / 0.02
    assert 0 < delayed["share"]["median"] < 1


CHECKS = {
    "latency": check_latency,
    "fleet": check_fleet,
    "network": check_network,
    "scaling": check_scaling,
    "memory": check_memory,
}
"""What else has to be right in the result of a smoke run."""


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
    assert content["command"].startswith(f"scripts/bench.sh {name} --quick")
    assert content["arguments"]["quick"] is True
    assert set(content) >= {"version", "commit", "python", "libraries", "hardware", "date"}
    value = measured(content["result"])
    assert min(value["repeats"]) > 0
    assert min(value["repeats"]) <= value["median"] <= max(value["repeats"])
    assert command.benchmark(name).table(content["result"]) in out, "the table can be made from the file again"
    CHECKS.get(name, lambda result: None)(content["result"])


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
    assert command.parse("fleet", ["--quick"]).gin_file == ["catch/vtrace"]
    assert command.parse("fleet", ["--quick", "--gin_file=a", "--gin_file=b"]).gin_file == ["a", "b"]
    assert command.parse("fleet", ["--gin_param=a", "--gin_param=b"]).gin_param == ["a", "b"]


def test_an_environment_that_is_not_installed_is_named_in_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "seed_rl.envs.football.engine", None)
    assert main(["bench", "env", "--quick", "--suites=football,catch", f"--output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "football: the gfootball package can't be used here" in out
    assert "catch" in out


def test_a_wrong_experiment_is_refused(capsys, tmp_path):
    assert main(["bench", "end_to_end", "--gin_file=catch/vtracy", f"--output={tmp_path}"]) == 2
    assert "no gin file 'catch/vtracy'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["latency", "--models=null,best"], "latency: argument --models: there is no 'best'"),
        (["latency", "--loads=0,50"], "must be more than 0"),
        (["latency", "--loads=120"], "must be 100 at the most"),
        (["fleet", "--actors=16,x"], "must be a whole number"),
        (["fleet", "--step_ms=-1"], "must be at least 0"),
        (["fleet", "--jitter=2"], "must be from 0 to 1"),
        (["network", "--groups=3"], "network: 64 environments can't be spread evenly over 3 groups"),
        (["network", "--rtt_ms=1,-5"], "must be at least 0"),
        (["scaling", "--processes=3"], "scaling: 64 environments can't be spread evenly over 3 processes"),
        (["memory", "--unrolls=5"], "memory: --unrolls takes at least two numbers"),
        (["memory", "--minutes=0.3", "--sample_s=10"], "memory: --minutes=0.3 is too short"),
        (["memory", "--logdir=tests"], "memory: --logdir=tests is not an empty directory"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "file").touch()
    assert main(["bench", *words, f"--output={tmp_path}"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_measurement_that_fails_is_told_in_a_sentence(capsys, monkeypatch, tmp_path):
    def fail(*_):
        raise MeasurementFailed("the learner has failed: no room")

    monkeypatch.setattr(memory, "by_unrolls", fail)
    assert main(["bench", "memory", "--quick", f"--output={tmp_path}"]) == 1
    assert capsys.readouterr().err == "scripts/bench.sh: memory: the learner has failed: no room\n"
    assert not list(tmp_path.iterdir())


def test_a_run_that_dies_is_told_in_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(end_to_end, "Parts", lambda *_: argparse.Namespace(rates=dict))
    monkeypatch.setattr(end_to_end, "load", lambda _: None)
    assert main(["bench", "end_to_end", "--quick", "--gin_param=Catch.rows=-1", f"--output={tmp_path}"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("scripts/bench.sh: end_to_end: seed_rl train has failed: exit code ")
    assert err.count("\n") == 1


def test_streams_whose_actors_fail_are_told_in_a_sentence():
    server = argparse.Namespace(stats=argparse.Namespace(streams=0, steps=0))
    actors = argparse.Namespace(failed=RuntimeError("actor 0 ended; its last words:\nTraceback\nOSError: no room\n"))
    with pytest.raises(MeasurementFailed, match="^an actor ended again and again: OSError: no room$"):
        streams._wait_for(server, actors, [], streams=1)
