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
    """Every start of the run in a log directory in order: its description, horizontal axis, config and rows by tag."""
    teardown()  # the files are complete only now
    starts = []
    found = pathlib.Path(logdir, "wandb").glob("*run-*/run-*.wandb")
    for path in sorted(found, key=lambda path: path.parent.name.removeprefix("offline-")):  # run-<time>-<id>
        run, axis, rows = None, "", []
        for record in records(path):
            if record.HasField("run"):
                run = run or record.run
            if record.HasField("metric") and record.metric.glob_name == "*":
                axis = record.metric.step_metric
            if record.HasField("history"):
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                rows.append({key: json.loads(value) for key, value in items.items() if not key.startswith("_")})
        config = {update.key: json.loads(update.value_json) for update in run.config.update}
        starts.append((run, axis, config, rows))
    return starts


def report(logdir, *frames, project="tests", resumed=None, film=None):
    """A start of a run with a row at each of these frames, and perhaps a film after them."""
    experiment = config_files.load(["catch/vtrace"], [f"Logs.wandb_project = {project!r}"])
    *others, run = sinks_of(experiment, str(logdir), resumed)
    for n in frames:
        run.write({"env_frames": n, "loss/total": n / 20}, wall_time=0.0)
    if film:
        run.film(str(film), "", frames[-1], wall_time=0.0)
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
    (first, _, _, before), (second, axis, config, after) = stored(tmp_path / "vtrace")
    assert first.run_id == second.run_id == (tmp_path / "vtrace/wandb_id").read_text().strip()
    assert (second.project, second.display_name, axis) == ("tests", "vtrace", "progress/env_frames")
    assert (config["agent"]["kind"], config["optimizer"]["learning_rate"]) == ("VTrace", 1e-3)
    assert before == [{"progress/env_frames": n, "loss/total": n / 20} for n in (10, 20)]
    assert after == [{"progress/env_frames": 30, "loss/total": 1.5}]
    film = tmp_path / "film.mp4"
    film.write_bytes(b"pictures")
    report(tmp_path / "vtrace", 10, film=film)
    assert len({run.run_id for run, *_ in stored(tmp_path / "vtrace")}) == 2, "one that begins anew is another run"
    (copied,) = (tmp_path / "vtrace/wandb").rglob("film*.mp4")
    assert copied.read_bytes() == b"pictures"
    assert capfd.readouterr() == ("", "")


def test_an_agent_of_a_sweep_starts_runs_by_the_command_on_the_page(somebody, tmp_path):
    from wandb.sdk.launch.sweeps import utils

    somebody(WANDB_MODE="offline", WANDB_RUN_ID="abc123", WANDB_SWEEP_ID="sweep")
    page = (pathlib.Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
    sweep = yaml.safe_load(re.search(r"```yaml\n(program: .*?)```", page, re.DOTALL)[1])
    chosen = {"Optimizer.learning_rate": 0.002, "VTrace.hidden": 16, "Experiment.total_frames": 320}
    arguments = utils.create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    macros = {f"${{{name}}}": words for name, words in (arguments | {"program": [sweep["program"]]}).items()}
    command = [word for each in utils.create_sweep_command(sweep["command"]) for word in macros.get(each, [each])]
    (tmp_path / "seed_rl").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "seed_rl").chmod(0o755)
    words = subprocess.check_output(command, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, text=True)
    assert complaint(Line(words.splitlines(), str(tmp_path), "", is_complete=True)) == ""
    assert {"train", "--logdir=runs/abc123", "--gin_param=VTrace.hidden=16"} <= set(words.splitlines())
    wandb_run.check_wandb(Logs(wandb_project="catch"))
    report(tmp_path, 10, project="catch")
    ((started, _, _, _),) = stored(tmp_path)
    assert (started.run_id, started.project) == ("abc123", "catch")


@pytest.mark.parametrize(
    ("project", "settings"),
    [
        ("a/project/can't have such a name", {"WANDB_MODE": "offline"}),
        ("tests", {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_INIT_TIMEOUT": "1"}),
    ],
    ids=["name", "no answer of the server"],
)
def test_a_failure_of_wandb_is_logged_once_and_stops_nothing(somebody, tmp_path, caplog, project, settings):
    somebody(**settings)
    report(tmp_path, 10, project=project)
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("seed_rl")]
    assert message.startswith("Weights & Biases failed (")


@pytest.mark.parametrize(
    ("project", "settings", "word"),
    [
        ("pong", {}, "needs a login"),
        ("pong", {"WANDB_API_KEY": "x"}, "can't be set up"),
        ("pong", {"WANDB_MODE": "ofline"}, "mode Input should be"),
        ("a/b", {}, "Invalid project name 'a/b'"),
    ],
    ids=["not logged in", "odd key", "invalid mode", "invalid project"],
)
def test_a_run_that_cannot_report_is_refused(somebody, project, settings, word):
    somebody(**settings)
    with pytest.raises(ConfigError, match=word):
        wandb_run.check_wandb(Logs(wandb_project=project))


def test_only_runs_with_a_project_need_wandb(somebody, monkeypatch):
    somebody(WANDB_MODE="offline")
    wandb_run.check_wandb(Logs(wandb_project="pong"))
    monkeypatch.setitem(sys.modules, "wandb", None)  # not installed
    wandb_run.check_wandb(Logs(wandb_project=""))
    with pytest.raises(ConfigError, match="pip install wandb"):
        wandb_run.check_wandb(Logs(wandb_project="pong"))
