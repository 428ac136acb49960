"""Rows on their way to several sinks, some of which fail, and real files on a disk that is full."""

import json
import os
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seed_rl import config_files
from seed_rl.learner import metrics
from seed_rl.reporting.sinks import Sinks, sinks_of


class Box:
    """A sink that keeps rows, and fails while it is full."""

    def __init__(self, name):
        self.name = name
        self.full = False
        self.taken, self.opened, self.closed = [], 0, 0

    def _check(self):
        if self.full:
            raise OSError(28, "No space left on device")

    def open(self):
        self._check()
        self.opened += 1

    def write(self, row, wall_time):
        self._check()
        self.taken.append((row["env_frames"], wall_time))

    def close(self):
        self._check()
        self.closed += 1


@pytest.fixture
def boxes():
    return Box("metrics"), Box("curves")


def write(sinks, *frames):
    for n in frames:
        sinks.write({"env_frames": n}, wall_time=float(n))


def test_every_sink_gets_every_row(boxes):
    sinks = Sinks(boxes)
    assert [box.opened for box in boxes] == [1, 1], "before the first row"
    write(sinks, 1, 2)
    sinks.close()
    assert [box.taken for box in boxes] == [[(1, 1.0), (2, 2.0)]] * 2
    assert [(box.opened, box.closed) for box in boxes] == [(1, 1)] * 2


def test_a_sink_that_fails_gets_what_it_missed_and_the_others_miss_nothing(boxes, caplog):
    first, second = boxes
    sinks = Sinks(boxes)
    write(sinks, 1)
    first.full = True
    write(sinks, 2, 3)
    assert (len(first.taken), len(second.taken)) == (1, 3)
    first.full = False
    write(sinks, 4)
    assert first.taken == second.taken == [(n, float(n)) for n in (1, 2, 3, 4)]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "metrics can't be written (No space left on device): training goes on and tries again"),
        ("WARNING", "metrics can be written again"),
    ]


def test_a_sink_that_could_not_be_opened_is_opened_later(boxes):
    first, _ = boxes
    first.full = True
    sinks = Sinks(boxes)
    write(sinks, 1)
    first.full = False
    write(sinks, 2)
    assert first.opened == 1
    assert first.taken == [(1, 1.0), (2, 2.0)]


def test_closing_says_what_is_missing(boxes, caplog):
    first, second = boxes
    sinks = Sinks(boxes)
    first.full = True
    write(sinks, 1, 2)
    sinks.close()
    assert second.closed == 1
    assert "metrics lacks the last 2 rows" in caplog.text
    assert "metrics could not be closed (No space left on device)" in caplog.text


def test_a_sink_that_never_opened_is_not_closed(boxes):
    first, _ = boxes
    first.full = True
    sinks = Sinks(boxes)
    sinks.close()
    first.full = False
    assert (first.opened, first.closed) == (0, 0)


def test_a_run_leaves_its_configuration_rows_and_events(tmp_path):
    logdir = tmp_path / "runs" / "catch"
    sinks = sinks_of(config_files.load(["catch/vtrace"]), str(logdir), None)
    write(sinks, 10)
    sinks.close()
    names = sorted(os.listdir(logdir))
    assert names[:2] == ["config.gin", "config.json"]
    assert names[2].startswith("events.out.tfevents.")
    assert names[3:] == ["metrics.jsonl"], "and nothing of Weights & Biases"
    assert "Catch" in (logdir / "config.gin").read_text()
    assert metrics.read(str(logdir)) == [{"env_frames": 10}]


FULL_DISK = """
import logging, resource, sys
from seed_rl import config_files
from seed_rl.reporting.sinks import sinks_of

logdir, limit = sys.argv[1], int(sys.argv[2])
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)

def allow(size):  # of any file: what goes beyond fails with EFBIG after a part of it
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def write(*frames):
    for n in frames:
        sinks.write({"env_frames": n, "loss/total": 0.123456789, "time/cpu": 0.5}, wall_time=float(n))

loaded = config_files.load(["catch/vtrace"])
allow(limit)
sinks = sinks_of(loaded, logdir, None)
write(*range(200))
print("full")
allow(resource.RLIM_INFINITY)
write(*range(200, 210))
sinks.close()
"""


@pytest.mark.parametrize(
    ("limit", "failing"),
    [
        (9_001, {"metrics.jsonl", "events.out.tfevents"}),
        (301, {"the configuration", "metrics.jsonl", "events.out.tfevents"}),
    ],
    ids=["during the run", "from its beginning"],
)
def test_on_a_full_disk_training_goes_on_and_nothing_is_lost_once_there_is_room(tmp_path, limit, failing):
    arguments = [sys.executable, "-c", FULL_DISK, str(tmp_path), str(limit)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said, _, said_after = done.stdout.partition("full\n")
    for text, word, level in ((said, "can't be written (File too large)", "ERROR"), (said_after, "again", "WARNING")):
        lines = text.splitlines()
        assert len(lines) == len(failing), "once, not for each row"
        for line, name in zip(sorted(lines), sorted(failing, key=str.lower), strict=True):
            assert line.startswith(f"{level} {name}")
            assert word in line
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["env_frames"] for line in lines] == list(range(210))
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0}).Reload()
    assert [event.step for event in events.Scalars("loss/total")] == list(range(210))
    assert json.loads((tmp_path / "config.json").read_text())["env.kind"] == "Catch"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".partial")]


def test_while_the_disk_is_full_every_line_and_event_is_whole(tmp_path):
    script = FULL_DISK.partition('print("full")')[0]
    arguments = [sys.executable, "-c", script, str(tmp_path), "9001"]
    subprocess.run(arguments, capture_output=True, check=True, timeout=120)
    text = (tmp_path / "metrics.jsonl").read_text()
    frames = [json.loads(line)["env_frames"] for line in text.splitlines()]
    assert text.endswith("\n")
    assert 100 < len(frames) < 200
    assert frames == list(range(len(frames)))
    steps = [event.step for event in EventAccumulator(str(tmp_path)).Reload().Scalars("loss/total")]
    assert 10 < len(steps) < 200
    assert steps == list(range(len(steps)))
