"""A sink that can't be opened for a while behind one that retries; `files_test` has one that can't be written to."""

from seed_rl.reporting.sinks import RetryingSink


class Box:
    """A sink that keeps the frames of rows and films, and fails while it is full."""

    def __init__(self):
        self.full, self.calls = True, []

    def _call(self, *call):
        if self.full:
            raise OSError(28, "No space left on device")
        self.calls.append(call)
        return self

    def open(self):
        return self._call("open")

    def write(self, row, wall_time):
        self._call("write", row["env_frames"], wall_time)

    def film(self, mp4, gif, env_frames, wall_time):
        self._call("film", mp4, gif, env_frames, wall_time)

    def close(self):
        self._call("close")


def test_what_a_full_disk_does_not_take_is_missing_and_the_rest_follows(caplog):
    box = Box()
    sink = RetryingSink("metrics", box.open)
    sink.write({"env_frames": 1}, wall_time=1.0)
    box.full = False
    sink.write({"env_frames": 3}, wall_time=3.0)
    sink.film("film.mp4", "film.gif", 4, 4.0)
    box.full = True
    sink.close()
    assert box.calls == [("open",), ("write", 3, 3.0), ("film", "film.mp4", "film.gif", 4, 4.0)]
    cannot = "metrics can't be written (No space left on device): training continues, without these rows"
    assert caplog.messages == [cannot, "metrics can be written again", cannot]
