"""Every benchmark through the command line, in a smoke run. Speed is not for a test."""

import importlib
import json

import pytest

from benchmarks.__main__ import APART, BENCHMARKS, main

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


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in APART])
def test_a_smoke_run_prints_a_table_and_writes_json(name, capfd, tmp_path):
    assert main([name, "--quick", f"--output={tmp_path}", *SMALLER.get(name, ())]) == 0
    out, content = capfd.readouterr().out, json.loads((tmp_path / f"{name}.json").read_text())
    assert all(word in out for word in WORDS[name]), out
    assert content["command"].startswith(f"scripts/bench.sh {name} --quick")
    table = importlib.import_module(f"benchmarks.{name}").table(content["result"])
    assert table in out, "the table can be made from the file again"
