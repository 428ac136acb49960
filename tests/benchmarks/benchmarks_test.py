"""Every benchmark through the command line, in a smoke run. Speed is not for a test."""

import importlib
import json

import pytest

from benchmarks.__main__ import APART, BENCHMARKS, main

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
    assert content["command"].startswith(f"scripts/bench.sh {name} --quick")
    table = importlib.import_module(f"benchmarks.{name}").table(content["result"])
    assert len(table.splitlines()) > 2
    assert table in out, "the table can be made from the file again"
