"""Runs in Weights & Biases: the real package without a network, and no package at all."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from seed_rl.experiment import ConfigError, Logs, config_files
from seed_rl.reporting import wandb_run
from seed_rl.reporting.sinks import sinks_of
from tests.support.checked_commands import Line, complaint

VALUE = re.compile(rb"(?:progress/env_frames|loss/total)\x82\x01(.)", re.DOTALL)
"""The bytes before a value of a row in a `.wandb` file, whose records are protobuf messages: the last is its length."""
AXIS = b'*"\x13progress/env_frames'
"""The horizontal axis of all metrics in one."""


def teardown():
    """Ends the service of wandb where it was imported."""
    if wandb := sys.modules.get("wandb"):
        wandb.teardown()


def report(logdir, *frames, resumed=None, film=""):
    """A start of a run with a row at each of these frames, and perhaps a film after them."""
    experiment = config_files.load("catch/vtrace", "Logs.wandb_project = 'tests'")
    wandb_run.check_wandb(experiment.logs)
    *others, run = sinks_of(experiment, str(logdir), resumed)
    for n in frames:
        run.write({"env_frames": n, "loss/total": n / 20}, wall_time=0.0)
    if film:
        run.film(film, "", frames[-1], wall_time=0.0)
    for sink in (*others, run):
        sink.close()


@pytest.fixture
def somebody(tmp_path, monkeypatch):
    """Sets settings of wandb for somebody who has none, and forgets them after the test."""

    def start(**settings):
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            monkeypatch.delenv(name)
        for name, value in {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc"), **settings}.items():
            monkeypatch.setenv(name, value)

    teardown()
    yield start
    teardown()


def test_a_run_and_its_resumption_are_one_run_of_wandb_with_every_row_and_nothing_is_printed(somebody, tmp_path, capfd):
    somebody(WANDB_MODE="offline")
    (tmp_path / "vtrace").mkdir()
    report(tmp_path / "vtrace", 10, 20)
    (tmp_path / "film.mp4").write_bytes(b"pictures")
    report(tmp_path / "vtrace", 30, resumed=(20, 1.0), film=f"{tmp_path}/film.mp4")
    teardown()  # the files are complete only now
    files = [path.read_bytes() for path in sorted(tmp_path.glob("vtrace/wandb/offline-run-*/run-*.wandb"))]
    values = [{file[found.end() :][: found[1][0]] for found in VALUE.finditer(file)} for file in files]
    assert values == [{b"10", b"0.5", b"20", b"1"}, {b"30", b"1.5"}]
    run = (tmp_path / "vtrace/wandb_id").read_text().strip()
    for file in files:
        assert all(part in file for part in (run.encode(), b"\x1a\x05tests", b"B\x06vtrace", AXIS, b'{"kind":"VTrace"'))
    assert wandb_run.run_id(f"{tmp_path}/vtrace", resumed=False) != run, "one that begins anew is another run"
    (copied,) = (tmp_path / "vtrace/wandb").rglob("film*.mp4")
    assert copied.read_bytes() == b"pictures"
    assert capfd.readouterr() == ("", "")


def test_an_agent_of_a_sweep_starts_runs_by_the_command_on_the_page(somebody, tmp_path):
    somebody(WANDB_RUN_ID="abc123")
    page = (pathlib.Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
    command = yaml.safe_load(re.search(r"```yaml\n(program: .*?)```", page, re.DOTALL)[1])["command"]
    assert command[3:] == ["${program}", "${args_no_hyphens}"]
    command[3:] = ["seed_rl", "Optimizer.learning_rate=0.002", "VTrace.hidden=16"]
    (tmp_path / "seed_rl").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "seed_rl").chmod(0o755)
    words = subprocess.check_output(command, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, text=True)
    assert complaint(Line(words.splitlines(), str(tmp_path), "", is_complete=True)) == ""
    assert {"train", "--logdir=runs/abc123", "--gin_param=VTrace.hidden=16"} <= set(words.splitlines())
    assert wandb_run.run_id(str(tmp_path), resumed=False) == "abc123"


def test_a_server_that_does_not_answer_is_logged_once_and_stops_nothing(somebody, tmp_path, caplog):
    somebody(WANDB_API_KEY="a" * 40, WANDB_BASE_URL="http://127.0.0.1:9", WANDB_INIT_TIMEOUT="1")
    report(tmp_path, 10)
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("seed_rl")]
    assert message.startswith("Weights & Biases failed (")


@pytest.mark.parametrize(
    ("project", "settings", "word"),
    [
        ("pong", {}, "needs a login"),
        ("pong", {"WANDB_API_KEY": "x"}, "can't be set up"),
        ("a/b", {}, "name 'a/b'"),
    ],
)
def test_a_run_that_cannot_report_is_refused(somebody, project, settings, word):
    somebody(**settings)
    with pytest.raises(ConfigError, match=word):
        wandb_run.check_wandb(Logs(wandb_project=project))


def test_only_runs_with_a_project_need_wandb(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # not installed
    wandb_run.check_wandb(Logs(wandb_project=""))
    with pytest.raises(ConfigError, match="pip install wandb"):
        wandb_run.check_wandb(Logs(wandb_project="pong"))
