"""The display of a run."""

import errno
import io
import os
import re

import pytest

from seed_rl.cli.display import RunDisplay
from seed_rl.experiment import config_files

ROW = {"env_frames": 250_000.0, "acted_steps": 260_000.0, "seconds": 40.0, "frames_per_second": 7_512.3}
ROW |= {"episode_return": 12.345, "loss/total": 0.01234, "actors": 2.0, "environments": 32.0, "time/cpu": 0.5}
ROW |= {"time/learner_waiting": 0.6, "time/inference_blocked": 0.0, "time/inference_acting": 0.5}
LATER = ROW | {"env_frames": 400_000.0, "seconds": 60.0, "time/learner_waiting": 0.0}
DONE = ROW | {"env_frames": 1_000_320.0, "seconds": 200.0, "frames_per_second": 1.0}
EXPERIMENT = config_files.load("catch/vtrace", ["Experiment.total_frames = 1_000_000", "Actors.num_actors = 2"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ClosedTerminal(Terminal):
    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "FORCE_COLOR": "1"}.items():  # which makes no file a terminal
        monkeypatch.setenv(name, value)


def shown(stream, *rows):
    with RunDisplay(EXPERIMENT, "runs/pong", stream=stream) as progress:
        for row in rows:
            progress.show(row)
    return stream.getvalue()


def test_a_file_gets_a_line_for_each_row_and_one_when_something_changes():
    silent = {name: LATER[name] for name in LATER if name != "episode_return"}
    old = silent | {"learning/clipped_mass": 0.4, "policy_lag": 31.0}
    other = {"time/learner_waiting": 0.5, "time/actors_waiting": 0.1}  # of a single row: not said
    rows = (ROW, LATER | other, LATER, old, old, silent, LATER | {"eval/episode_return": -1255.94}, DONE)
    texts = [line.split(" ", 1)[1].strip() for line in shown(io.StringIO(), *rows).splitlines()]  # without the time
    assert texts[0] == "25% 250k frames, 7.51k/s, return 12.35"
    assert texts[2] == "40% 400k frames, 7.51k/s, return 12.35, 1m20s left"
    assert texts[-2].endswith("return 12.35, eval -1256, 1m20s left")
    assert texts[-1] == "100% 1M frames, 5k/s, return 12.35, done in 3m20s"
    changes = [re.sub("[:;,].*", "", text) for text in texts if not re.match(r"\d+%", text)]
    assert changes == ["connected", "bottleneck", "learning", "learning"]
    assert "loss 0.0123" in texts[4]


def test_a_terminal_shows_the_newest_row_in_a_panel():
    text = shown(Terminal(), ROW, LATER, LATER | {"episode_return": 20.0})
    last = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text[text.rindex("40%") :])
    for part in ("400k of 1M", "7.51k frames/s", "1m20s left", "20.00  ▁▁█", "0.0123", "32 of", "learner", "runs/pong"):
        assert part in last, last


def test_a_closed_terminal_or_a_full_disk_does_not_end_the_run():
    assert shown(ClosedTerminal(), ROW) == ""
    file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 (closing it fails as well)
    with RunDisplay(EXPERIMENT, "runs/pong", stream=file) as progress:
        progress.show(ROW)
    with pytest.raises(OSError, match="No space left"):
        file.close()
