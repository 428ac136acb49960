"""What a person sees of a run."""

import io
import re

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
    with Progress(1_000_000, stream) as progress:
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


def test_a_terminal_shows_the_newest_row_and_the_bottleneck(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = shown(Terminal(), ROW, ROW | {"env_frames": 500_000.0})
    assert "25%" in text
    last = text[text.rindex("50%") :]
    assert "500k frames" in last
    assert "bottleneck: actors: add environments or processes" in last
