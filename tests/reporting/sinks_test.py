"""A sink that fails for a while behind one that retries."""

import pytest

from seed_rl.reporting.sinks import RetryingSink


class Box:
    """A sink that keeps rows, and fails while it is full."""

    def __init__(self, full=False):
        self.full = full
        self.taken, self.calls = [], []

    def _call(self, name):
        if self.full:
            raise OSError(28, "No space left on device")
        self.calls.append(name)

    def open(self):
        self._call("open")
        return self

    def write(self, row, wall_time):
        self._call("write")
        self.taken.append((row["env_frames"], wall_time))

    def film(self, mp4, gif, env_frames, wall_time):
        self._call("film")
        self.taken.append((env_frames, wall_time))

    def close(self):
        self._call("close")


def write(sink, *frames):
    for n in frames:
        sink.write({"env_frames": n}, wall_time=float(n))


@pytest.mark.parametrize("full_at_first", [False, True])
def test_rows_that_could_not_be_written_follow_later(full_at_first, caplog):
    box = Box(full_at_first)
    sink = RetryingSink("metrics", box.open)
    write(sink, 1)
    assert box.calls == ([] if full_at_first else ["open", "write"])
    box.full = True
    write(sink, 2, 3)
    box.full = False
    write(sink, 4)
    sink.close()
    assert box.taken == [(n, float(n)) for n in (1, 2, 3, 4)]
    assert box.calls == ["open", *["write"] * 4, "close"]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "metrics can't be written (No space left on device): training continues, with retries"),
        ("WARNING", "metrics can be written again"),
    ]


def test_a_film_that_was_removed_meanwhile_does_not_keep_rows_back(tmp_path):
    box, paths = Box(), [tmp_path / "0.mp4", tmp_path / "0.gif"]
    sink = RetryingSink("metrics", box.open)
    for path in paths:
        path.touch()
    sink.film(*map(str, paths), env_frames=1, wall_time=1.0)
    box.full = True
    sink.film(*map(str, paths), env_frames=2, wall_time=2.0)
    paths[1].unlink()
    box.full = False
    write(sink, 3)
    assert box.taken == [(1, 1.0), (3, 3.0)]


def test_missing_rows_are_logged_at_the_end(caplog):
    box = Box()
    sink = RetryingSink("metrics", box.open)
    box.full = True
    write(sink, 1, 2)
    sink.close()
    assert "metrics: the last 2 entries could not be written" in caplog.text
    assert "metrics could not be closed (No space left on device)" in caplog.text


def test_a_sink_that_was_never_opened_is_not_closed():
    box = Box(full=True)
    RetryingSink("metrics", box.open).close()
    assert box.calls == []
