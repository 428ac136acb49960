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

from seed_rl import experiment
from seed_rl.learner import metrics
from seed_rl.reporting.catalogue import tag
from seed_rl.reporting.wandb_run import WandbRun, nested

ROW = {"env_frames": 10, "loss/total": 0.5}


def records(path):
    """The records of a `.wandb` file: protobuf messages in a log as LevelDB's, whose blocks have 32 KB."""
    data = pathlib.Path(path).read_bytes()
    position, message, found = 7, b"", []  # behind the file's own header
    while position + 7 <= len(data):
        room = -position % 32768 or 32768
        if room < 7:  # too little for a header: the rest of the block is padding
            position += room
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        message += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            found.append(wandb_internal_pb2.Record.FromString(message))
            message = b""
    return found


def stored(logdir):
    """Every start of the run in a log directory, the oldest first: its id, its config and its rows by tag."""
    starts = []
    found = pathlib.Path(logdir, "wandb").glob("*run-*/run-*.wandb")
    for path in sorted(found, key=lambda path: path.parent.name.removeprefix("offline-")):  # run-<time>-<id>
        run, rows = None, []
        for record in records(path):
            if record.HasField("run"):
                run = run or record.run
            if record.HasField("history"):
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                rows.append({key: json.loads(value) for key, value in items.items() if not key.startswith("_")})
        config = {update.key: json.loads(update.value_json) for update in run.config.update}
        starts.append((run.run_id, run.project, run.display_name, config, rows))
    return starts


def test_every_row_of_a_run_and_of_its_resumption_is_in_one_run_of_wandb(finished_runs):
    (first, *_, before), (second, project, name, config, after) = stored(finished_runs.vtrace)
    assert first == second == pathlib.Path(finished_runs.vtrace, "wandb_id").read_text().strip()
    assert (project, name) == ("seed_rl", "vtrace")
    assert config["agent"]["kind"] == "VTrace"
    assert config["optimizer"]["learning_rate"] == 1e-3
    rows = [
        {tag(key): pytest.approx(value) for key, value in row.items()} for row in metrics.read(finished_runs.vtrace)
    ]
    assert before + after == rows
    assert len(before) >= 1
    assert len(after) >= 1


def test_environment_frames_are_the_horizontal_axis(finished_runs):
    starts = list(pathlib.Path(finished_runs.vtrace, "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(starts) == 2
    for path in starts:
        defined = [record.metric for record in records(path) if record.HasField("metric")]
        assert [metric.step_metric for metric in defined if metric.glob_name == "*"] == ["progress/env_frames"]


def test_wandb_prints_nothing(finished_runs):
    assert "wandb" not in finished_runs.output
    assert not os.path.exists(os.path.join(finished_runs.r2d2, "wandb")), "it is off unless a project is named"


def offline(logdir, resume, *rows):
    run = WandbRun(str(logdir), resume, {"seed": 1}, "tests")
    run.open()
    for row in rows:
        run.write(row, wall_time=0.0)
    run.close()


def test_a_run_that_begins_anew_is_another_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    offline(tmp_path, None, ROW)
    offline(tmp_path, None, ROW)
    ids = [run_id for run_id, *_ in stored(tmp_path)]
    assert len(set(ids)) == 2
    assert (tmp_path / "wandb_id").read_text().strip() in ids


def test_a_failure_of_wandb_is_told_and_training_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = WandbRun(str(tmp_path), None, {"seed": 1}, "a/project/can't have such a name")
    run.open()
    run.write(ROW, wall_time=0.0)
    run.close()
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("Weights & Biases has failed (Invalid project name")


def test_dotted_names_are_dicts_in_dicts():
    assert nested({"seed": 1, "env.kind": "Catch", "env.inner.size": [1, 2]}) == {
        "seed": 1,
        "env": {"kind": "Catch", "inner": {"size": [1, 2]}},
    }


def at_home_in(directory):
    """Environment variables of somebody whom wandb knows nothing of."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return {**inherited, "HOME": str(directory), "NETRC": str(directory / "netrc")}


def start(tmp_path, code="", **environment):
    """Trains a run of Weights & Biases after some Python code."""
    script = f"import sys\n{code}\nfrom seed_rl.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    arguments = ["train", "--gin_file=catch/vtrace", f"--logdir={tmp_path}/run", "--total_frames=5000"]
    return subprocess.run(
        [sys.executable, "-c", script, *arguments, "--gin_param=Logs.wandb_project='pong'"],
        env={**at_home_in(tmp_path), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_without_the_package_a_run_is_refused_in_a_sentence(tmp_path):
    done = start(tmp_path, "sys.modules['wandb'] = None  # what an import of it finds")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "seed_rl train: Logs.wandb_project is 'pong', which needs a package that is missing here: "
        "pip install 'seed_rl[wandb]'"
    )
    assert not os.path.exists(tmp_path / "run" / "metrics.jsonl")


@pytest.mark.parametrize(
    ("project", "environment", "sentence"),
    [
        (
            "pong",
            {},
            "Logs.wandb_project is 'pong', and nobody is logged in to Weights & Biases here: .* WANDB_MODE=offline .*",
        ),
        ("pong", {"WANDB_MODE": "ofline"}, "Weights & Biases can't be set up: .* mode Input should be 'online', .*"),
        ("a/b", {}, "Weights & Biases can't be set up: Invalid project name 'a/b': .*"),
    ],
    ids=["nobody is logged in", "an unknown mode", "no name of a project"],
)
def test_settings_that_can_t_be_are_refused_in_a_sentence(tmp_path, project, environment, sentence):
    code = """
import sys
from seed_rl.experiment import ConfigError, Logs
from seed_rl.reporting.wandb_run import check_wandb
try:
    check_wandb(Logs(wandb_project=sys.argv[1]))
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, project],
        env={**at_home_in(tmp_path), **environment},
        capture_output=True,
        text=True,
    )
    assert re.fullmatch(f"{sentence}\n", done.stdout), done.stderr


def test_a_server_that_does_not_answer_neither_stops_training_nor_loses_a_row(tmp_path):
    nobody = "http://127.0.0.1:9"  # the port of discard, which nothing listens on
    shorter = "from seed_rl.learner import wandb_run; wandb_run._INIT_SECONDS = 3.0"
    done = start(tmp_path, shorter, WANDB_API_KEY="a" * 40, WANDB_BASE_URL=nobody)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("nothing can be sent to Weights & Biases", done.stderr)) == 1
    _, *_, rows = stored(tmp_path / "run")[-1]
    assert [row["progress/env_frames"] for row in rows] == [
        row["env_frames"] for row in metrics.read(str(tmp_path / "run"))
    ]


def test_without_a_project_wandb_is_not_imported():
    code = (
        "import sys\nfrom seed_rl import experiment\nfrom seed_rl.learner import wandb_run, sinks\n"
        "wandb_run.check_wandb(experiment.Logs())\nprint('wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert experiment.Logs().wandb_project == ""
