"""Runs in Weights & Biases: the real package without a network, and no package at all."""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest
import yaml

from seed_rl.experiment import ConfigError, Logs, config_files
from seed_rl.reporting import wandb_run
from seed_rl.reporting.sinks import sinks_of
from tests.support.checked_commands import Line, complaint


def records(path):
    """The records of a small `.wandb` file: protobuf messages in LevelDB's log format, in a single block."""
    from wandb.proto import wandb_internal_pb2

    data, position = path.read_bytes(), 7  # after the header of the file
    assert len(data) < 32768
    while position < len(data):
        length, kind = struct.unpack_from("<HB", data, position + 4)
        assert kind == 1, "a whole record"
        yield wandb_internal_pb2.Record.FromString(data[position + 7 : position + 7 + length])
        position += 7 + length


def teardown():
    """Ends the service of wandb where it was imported."""
    if wandb := sys.modules.get("wandb"):
        wandb.teardown()


def stored(logdir):
    """Every start of the run in a log directory in order: its description, horizontal axes by glob, and rows by tag."""
    teardown()  # the files are complete only now
    starts = []
    for path in sorted(pathlib.Path(logdir).glob("wandb/offline-run-*/run-*.wandb")):
        found = list(records(path))
        rows = [
            {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for record in found
            if record.HasField("history")
        ]
        axes = {record.metric.glob_name: record.metric.step_metric for record in found}
        starts.append((next(record.run for record in found if record.HasField("run")), axes, rows))
    return starts


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
    report(tmp_path / "vtrace", 30, resumed=(20, 1.0))
    (first, _, before), (second, axes, after) = stored(tmp_path / "vtrace")
    assert first.run_id == second.run_id == (tmp_path / "vtrace/wandb_id").read_text().strip()
    assert (second.project, second.display_name, axes["*"]) == ("tests", "vtrace", "progress/env_frames")
    config = {update.key: json.loads(update.value_json) for update in second.config.update}
    assert (config["agent"]["kind"], config["optimizer"]["learning_rate"]) == ("VTrace", 1e-3)
    rows = [(row["progress/env_frames"], row["loss/total"]) for row in before + after]
    assert rows == [(10, 0.5), (20, 1.0), (30, 1.5)]
    (tmp_path / "film.mp4").write_bytes(b"pictures")
    report(tmp_path / "vtrace", 10, film=f"{tmp_path}/film.mp4")
    assert len({run.run_id for run, *_ in stored(tmp_path / "vtrace")}) == 2, "one that begins anew is another run"
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
