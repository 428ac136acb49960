"""Runs in Weights & Biases: the real package without a network, and no package at all."""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest
from wandb.proto import wandb_internal_pb2

from seed_rl.experiment import config_files
from seed_rl.reporting import metrics, wandb_run
from seed_rl.reporting.catalogue import tag
from seed_rl.reporting.wandb_run import WandbRun


def records(path):
    """The records of a `.wandb` file: protobuf messages in LevelDB's log format, in blocks of 32 KB."""
    data = path.read_bytes()
    position, message = 7, b""  # after the header of the file
    while position + 7 <= len(data):
        room = -position % 32768 or 32768
        if room < 7:  # too small for a header: padding
            position += room
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        message += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(message)
            message = b""


def stored(logdir):
    """Every start of the run in a log directory in order: its description, horizontal axis, config and rows by tag."""
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


def test_a_run_and_its_resumption_are_one_run_of_wandb_with_every_row(finished_runs):
    (first, _, _, before), (second, axis, config, after) = stored(finished_runs.vtrace)
    assert first.run_id == second.run_id == pathlib.Path(finished_runs.vtrace, "wandb_id").read_text().strip()
    assert (second.project, second.display_name, axis) == ("seed_rl", "vtrace", "progress/env_frames")
    assert (config["agent"]["kind"], config["optimizer"]["learning_rate"]) == ("VTrace", 1e-3)
    rows = [{tag(name): pytest.approx(row[name]) for name in row} for row in metrics.read(finished_runs.vtrace)]
    assert before + after == rows
    assert min(len(before), len(after)) >= 1


def test_wandb_prints_nothing_and_is_off_unless_a_project_is_named(finished_runs):
    assert "wandb" not in finished_runs.output
    assert not os.path.exists(os.path.join(finished_runs.r2d2, "wandb"))


def report(logdir, project="tests"):
    """A run of one row."""
    experiment = config_files.load(["catch/vtrace"], [f"Logs.wandb_project = {project!r}"])
    run = WandbRun(experiment, str(logdir), None)
    run.write({"env_frames": 10, "loss/total": 0.5}, wall_time=0.0)
    run.close()


def test_a_run_that_begins_anew_is_another_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    report(tmp_path)
    report(tmp_path)
    ids = [run.run_id for run, *_ in stored(tmp_path)]
    assert len(set(ids)) == 2
    assert (tmp_path / "wandb_id").read_text().strip() in ids


@pytest.mark.parametrize("odd", [b"\xff\xfe", b"", b"../../elsewhere", b"a\x1b[2J", b"a" * 65], ids=range(5))
def test_an_odd_id_begins_a_run_of_its_own(odd, tmp_path, caplog):
    (tmp_path / "wandb_id").write_bytes(odd)
    new = wandb_run._run_id(str(tmp_path), resumed=True)
    assert f"{tmp_path}/wandb_id must hold an id of Weights & Biases, got" in caplog.text
    assert wandb_run._run_id(str(tmp_path), resumed=True) == new
    assert caplog.messages[0].isprintable()


def test_a_failure_of_wandb_is_logged_and_stops_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_MODE", "offline")
    report(tmp_path, "a/project/can't have such a name")
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("Weights & Biases failed (Invalid project name")


def python(home, code, *arguments, **environment):
    """Runs Python code for somebody without settings of wandb."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**inherited, "HOME": str(home), "NETRC": str(home / "netrc"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


CHECK = """
import sys
from seed_rl.experiment import ConfigError, Logs
from seed_rl.reporting import sinks, wandb_run
try:
    wandb_run.check_wandb(Logs(wandb_project=sys.argv[1]))
    print("imported" if "wandb" in sys.modules else "not imported")
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("project", "before", "environment", "sentence"),
    [
        ("", "", {}, "not imported"),
        ("pong", "", {"WANDB_MODE": "offline"}, "imported"),
        ("pong", "", {}, "Logs.wandb_project = 'pong' needs a login to .* WANDB_MODE=offline .*"),
        (
            "pong",
            "",
            {"WANDB_MODE": "ofline"},
            "Weights & Biases can't be set up: .* mode Input should be .*",
        ),
        ("a/b", "", {}, "Weights & Biases can't be set up: Invalid project name 'a/b': .*"),
        (
            "pong",
            "import sys; sys.modules['wandb'] = None  # not installed",
            {},
            r"Logs.wandb_project = 'pong' needs another package: pip install wandb",
        ),
    ],
    ids=["off", "offline", "not logged in", "invalid mode", "invalid project", "not installed"],
)
def test_a_run_that_cannot_report_is_refused_in_a_sentence(tmp_path, project, before, environment, sentence):
    done = python(tmp_path, before + CHECK, project, **environment)
    assert re.fullmatch(f"{sentence}\n", done.stdout), done.stdout + done.stderr


def test_without_an_answer_of_the_server_the_run_is_kept_offline(tmp_path):
    code = "import sys, wandb_run_test; wandb_run_test.report(sys.argv[1])"
    nobody = {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_INIT_TIMEOUT": "3"}
    path = f"{pathlib.Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    done = python(tmp_path, code, str(tmp_path), PYTHONPATH=path, **nobody)
    assert len(re.findall("Weights & Biases can't be reached", done.stderr)) == 1
    assert stored(tmp_path)[-1][-1] == [{"progress/env_frames": 10, "loss/total": 0.5}]
