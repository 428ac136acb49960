"""A sink that can't be opened for a while behind one that retries; `files_test` has one that can't be written to."""

from seed_rl.reporting.sinks import RetryingSink


class Box:
    """A sink that keeps what it is called with, and fails while it is full."""

    full = True

    def __init__(self):
        self.calls = []

    def write(self, *call):
        if self.full:
            raise OSError(28, "No space left on device")
        self.calls.append(call)
        return self

    film = close = write


def test_what_a_full_disk_does_not_take_is_missing_and_the_rest_follows(caplog):
    box = Box()
    sink = RetryingSink("metrics", box.write)
    sink.write({"env_frames": 1}, 1.0)
    box.full = False
    sink.write({"env_frames": 3}, 3.0)
    sink.film("film.mp4", "film.gif", 4, 4.0)
    box.full = True
    sink.close()
    assert box.calls == [(), ({"env_frames": 3}, 3.0), ("film.mp4", "film.gif", 4, 4.0)]
    cannot = "metrics can't be written (No space left on device): training continues, without these rows"
    assert caplog.messages == [cannot, "metrics can be written again", cannot]
