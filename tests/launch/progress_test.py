"""What a person sees of a run."""

import io
import re

import pytest
from rich.console import Console

from seed_rl.launch.panel import panel, sparkline
from seed_rl.launch.progress import Progress

ROW = {
    "env_frames": 250_000.0,
    "frames_per_second": 7_512.3,
    "episode_return": 12.345,
    "loss/total": 0.01234,
    "environments": 32.0,
    "time/learner_waiting": 0.6,
    "time/inference_waiting": 0.3,
    "time/inference_blocked": 0.0,
    "time/inference_acting": 0.5,
    "time/actors_waiting": 0.2,
    "time/cpu": 0.5,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, *rows):
    with Progress(1_000_000, "runs/pong", stream=stream) as progress:
        for row in rows:
            progress.show(row)
    return stream.getvalue()


def test_a_file_gets_a_line_for_each_row_and_one_when_the_bottleneck_changes():
    busy = ROW | {"time/learner_waiting": 0.0}
    lines = [line.split(" ", 1) for line in shown(io.StringIO(), ROW, ROW, busy, ROW).splitlines()]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", time) for time, _ in lines)
    summary = " 25% 250k frames | 7.51k/s | return 12.35 | loss 0.0123 | envs 32 | left 1m40s"
    actors, learner = "actors: add environments or processes", "learner: smaller network or faster device"
    assert [text for _, text in lines] == [
        summary,
        f"bottleneck: {actors}",
        summary,
        summary,
        f"bottleneck: {learner}",
        summary,
        f"bottleneck: {actors}",
    ]


def test_a_terminal_shows_the_newest_row_in_a_panel(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(Terminal(), ROW, ROW | {"env_frames": 500_000.0, "episode_return": 20.0})
    assert "25%" in text
    last = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text[text.rindex("50%") :])
    assert "500k of 1M frames" in last
    assert "7.51k frames/s, 1m07s left" in last
    assert re.search(r"return +20.00  ▁█", last)
    assert "32 environments" in last
    assert re.search(r"bottleneck +actors: add environments or processes", last)
    assert max(map(len, last.splitlines())) <= 80


def test_quiet_shows_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream in (io.StringIO(), Terminal()):
        with Progress(1_000_000, "runs/pong", quiet=True, stream=stream) as progress:
            progress.show(ROW)
        assert stream.getvalue() == ""


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_panel_fits_its_terminal(width):
    for rows in ([], [ROW], [{"episode_return": 1.0}, ROW | {f"loss/part_{n}": 0.1 for n in range(9)}]):
        console = Console(width=width, file=io.StringIO())
        console.print(panel(rows, 1_000_000, "/a/very/long/path/" * 9 + "pong"))
        assert max(map(len, console.file.getvalue().splitlines())) <= width


def test_a_sparkline_has_a_tick_for_each_share_of_the_values():
    assert sparkline([1.0]) == "▁"
    assert sparkline([0.0, 7.0, 3.5]) == "▁█▅"
    assert sparkline([0.0] * 50 + [1.0] * 50, width=4) == "▁▁██"
    assert len(sparkline(list(range(1000)))) == 32
