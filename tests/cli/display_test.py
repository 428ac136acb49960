"""The display of a run."""

import errno
import io
import os
import re

import pytest
from rich.console import Console

from seed_rl.cli.display import RunDisplay, sparkline
from seed_rl.experiment import config_files
from seed_rl.reporting.text import duration

ROW = {
    "env_frames": 250_000.0,
    "acted_steps": 260_000.0,
    "seconds": 40.0,
    "frames_per_second": 7_512.3,
    "episode_return": 12.345,
    "loss/total": 0.01234,
    "actors": 2.0,
    "environments": 32.0,
    "time/learner_waiting": 0.6,
    "time/inference_waiting": 0.3,
    "time/inference_blocked": 0.0,
    "time/inference_acting": 0.5,
    "time/actors_waiting": 0.2,
    "time/cpu": 0.5,
}
LATER = ROW | {"env_frames": 400_000.0, "seconds": 60.0}
DONE = ROW | {"env_frames": 1_000_320.0, "seconds": 200.0, "frames_per_second": 1.0}
SETTINGS = ("Experiment.total_frames = 1_000_000", "Actors.num_actors = 2", "Experiment.batch_size = 652")
EXPERIMENT = config_files.load("catch/vtrace", SETTINGS)
ACTORS, LEARNER = "actors: add environments or processes", "learner: smaller network or faster device"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ClosedTerminal(Terminal):
    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def shown(stream, *rows):
    with RunDisplay(EXPERIMENT, "runs/pong", stream=stream) as progress:
        for row in rows:
            progress.show(row)
    return stream.getvalue()


def drawn(rows, width=80, logdir="runs/pong", encoding="utf-8"):
    """The panel after these rows, as text."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    progress = RunDisplay(EXPERIMENT, logdir, quiet=True)
    for row in rows:
        progress.show(row)
    Console(width=width, file=file).print(progress)
    file.flush()
    return file.buffer.getvalue().decode()


def test_a_file_gets_a_line_for_each_row_and_one_when_the_bottleneck_changes(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # does not make a terminal of a file
    busy = LATER | {"time/learner_waiting": 0.0}
    silent = {name: LATER[name] for name in LATER if name != "episode_return"}
    poor = LATER | {"episode_return": -1255.94, "eval/episode_return": -1255.94, "frames_per_second": 8.765}
    nearly = LATER | {"env_frames": 999_900.0, "seconds": 140.0}
    lines = [line.split(" ", 1) for line in shown(io.StringIO(), ROW, busy, silent, poor, nearly, DONE).splitlines()]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", time) for time, _ in lines)
    assert [text for _, text in lines] == [
        " 25% 250k frames, 7.51k/s, return 12.35",
        "connected: 32 of 64 environments of 2 actors",
        " 40% 400k frames, 7.51k/s, return 12.35, 1m20s left",  # the row before held the compilation of the update
        f"bottleneck: {LEARNER}",
        " 40% 400k frames, 7.51k/s, loss 0.0123, 1m20s left",
        f"bottleneck: {ACTORS}",
        " 40% 400k frames, 9/s, return -1256, eval -1256, 1m20s left",
        " 99% 1M frames, 7.51k/s, return 12.35, 0s left",
        "100% 1M frames, 5k/s, return 12.35, done in 3m20s",
    ]


def test_trouble_with_learning_is_shown_when_it_begins_and_when_it_ends():
    def clipped(mass):
        return ROW | {"learning/clipped_mass": mass, "policy_lag": 31.0}

    text = shown(io.StringIO(), clipped(0.01), clipped(0.4), clipped(0.5), clipped(0.01))
    sentence = "importance weights: 50% clipped, the behaviour policy is 31 updates old: fewer environments or larger"
    assert [line.split(" ", 2)[2] for line in text.splitlines() if " learning: " in line] == [
        f"{sentence} batches",
        "problem resolved",
    ]
    assert "40% clipped" in drawn([clipped(0.4)] * 3)
    assert "learning" not in drawn([clipped(0.01)])


def test_before_the_first_update_the_display_says_what_happens(monkeypatch):
    row = {name: value for name, value in ROW.items() if name != "loss/total"}
    row |= {"env_frames": 0.0, "frames_per_second": 0.0}
    for more, what in (
        ({"environments": 0.0}, "waiting for actors"),
        ({"acted_steps": 0.0}, "environments are being reset, for which some load or compile levels"),
        ({"acted_steps": 12_400.0}, "environments are stepping: 12,400 steps; first update after 640 more"),
        ({"acted_steps": 13_041.0}, "environments are stepping: 13,041 steps; first update as soon as its unrolls are"),
    ):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stdout", stream)  # the default where it is not a terminal
        RunDisplay(EXPERIMENT, "runs/pong").show(row | more)
        first, second = (line.split(" ", 1)[1] for line in stream.getvalue().splitlines())
        assert first.startswith(f"  0% {what}")
        assert second.startswith("connected: ")


def test_a_terminal_shows_the_newest_row_in_a_panel_which_needs_60_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = shown(Terminal(), ROW, LATER | {"episode_return": 20.0, "eval/episode_return": 4.0})
    assert "25%" in text
    last = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text[text.rindex("40%") :])
    for part in (
        "400k of 1M frames",
        "speed +7.51k frames/s, 1m00s so far, 1m20s left",
        "return +20.00  ▁█",
        "evaluation +4.00  ▁",
        "loss +0.0123",
        "connected +32 of 64 environments of 2 actors",
        "bottleneck +actors: add environments or",
        "stored in +runs/pong",
    ):
        assert re.search(part, last), last
    assert max(map(len, last.splitlines())) <= 60


def test_a_closed_terminal_or_a_full_disk_does_not_end_the_run():
    assert shown(ClosedTerminal(), ROW) == ""
    file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 (closing it fails as well)
    with RunDisplay(EXPERIMENT, "runs/pong", stream=file) as progress:
        progress.show(ROW)
    with pytest.raises(OSError, match="No space left"):
        file.close()


def test_a_sparkline_has_a_tick_for_each_share_of_the_values():
    assert sparkline([0.0, 7.0, 3.5], 32) == "▁█▅"
    assert sparkline([0.0, float("nan"), 7.0, float("-inf")], 32) == "▁█"
    assert sparkline([0.0] * 50 + [1.0] * 50, 4) == "▁▁██"
    assert sparkline([], 32) == sparkline([1.0], -3) == ""


def test_the_time_that_is_left_follows_from_the_last_minute():
    steady = [ROW | {"seconds": 10.0 * n, "env_frames": 100_000.0 + 2_000.0 * n} for n in range(30)]
    lines = shown(io.StringIO(), *steady, ROW | {"seconds": 300.0, "env_frames": 161_000.0}).splitlines()
    assert duration((1_000_000 - 161_000) / ((161_000 - 148_000) / 60)) in lines[-1]
