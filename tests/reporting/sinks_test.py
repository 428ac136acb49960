"""A sink that fails for a while behind one that retries."""

import pytest

from seed_rl.reporting.sinks import RetryingSink


class Box:
    """A sink that keeps the frames of rows and films, and fails while it is full."""

    def __init__(self, full=False):
        self.full, self.calls = full, []

    def _call(self, *call):
        if self.full:
            raise OSError(28, "No space left on device")
        self.calls.append(call)

    def open(self):
        self._call("open")
        return self

    def write(self, row, wall_time):
        self._call("write", row["env_frames"], wall_time)

    def film(self, mp4, gif, env_frames, wall_time):
        self._call("film", env_frames, wall_time)

    def close(self):
        self._call("close")


def write(sink, *frames):
    for n in frames:
        sink.write({"env_frames": n}, wall_time=float(n))


@pytest.mark.parametrize("full_at_first", [False, True])
def test_what_a_full_disk_does_not_take_is_missing_and_the_rest_follows(full_at_first, caplog):
    box = Box(full_at_first)
    sink = RetryingSink("metrics", box.open)
    assert box.calls == ([] if full_at_first else [("open",)])
    box.full = True
    write(sink, 1, 2)
    box.full = False
    write(sink, 3)
    sink.film("film.mp4", "film.gif", 4, 4.0)
    box.full = True
    sink.close()
    assert box.calls == [("open",), ("write", 3, 3.0), ("film", 4, 4.0)]
    cannot = "metrics can't be written (No space left on device): training continues, without these rows"
    assert caplog.messages == [cannot, "metrics can be written again", cannot]
