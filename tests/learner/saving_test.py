"""Checkpoints of a run: when they are due, how they end, and the replay that belongs to them."""

import os
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from seed_rl.errors import Failure
from seed_rl.experiment import Logs
from seed_rl.learner import saving
from seed_rl.learner.progress import Progress
from seed_rl.learner.saving import Saver
from seed_rl.weights import checkpoints
from tests.support.full_disk import largest_file


class Content:
    """Stands for a replay."""

    def __init__(self, text=b"", error=None):
        self.text, self.error = text, error

    def save(self, file):
        file.write(self.text)
        if self.error is not None:
            raise self.error

    def restore(self, file):
        self.text = file.read()


class Run:
    """A start of a run, with 1,000 weights and a checkpoint every ten seconds."""

    def __init__(self, directory, updates=0, keep_every_frames=0):
        self.directory = directory / "checkpoints"
        self.weights = keras.Variable(np.zeros(1000), name="w")
        self.progress = Progress(1, np.ones(1, bool))
        self.progress.counters.learner_updates = updates
        logs = Logs(checkpoint_interval_s=10.0, checkpoints_kept=3, keep_every_frames=keep_every_frames)
        self.saver = Saver(str(directory), logs, {"w": self.weights}, self.progress)

    @property
    def files(self):
        return sorted(os.listdir(self.directory))

    def learn(self, frames, evaluation=None):
        """Learns up to a number of frames; perhaps its evaluation episodes end meanwhile."""
        self.progress.counters.learner_updates = self.progress.counters.env_frames = frames
        self.weights.assign(np.full(self.weights.shape, frames))
        self.progress.new_evaluation = lambda: evaluation
        self.saver.save_if_due()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time passes when a test says so."""
    clock = SimpleNamespace(now=50.0)
    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


CHECKPOINT, SNAPSHOT = "checkpoint-{:012d}.npz".format, "replay-{:012d}.npz".format


def test_checkpoints_are_written_when_due(tmp_path, clock):
    run = Run(tmp_path)
    clock.now = 100.0  # compiling has taken its time
    run.saver.begin()
    for seconds, count in ((109.9, 0), (110.0, 1), (119.9, 1), (120.0, 2)):
        clock.now, run.progress.counters.learner_updates = seconds, int(seconds)
        run.saver.save_if_due()
        assert len(run.files) == count


def test_nothing_is_written_before_there_is_something_to_continue_from(tmp_path, clock):
    run = Run(tmp_path)
    run.saver.begin()
    clock.now += 100
    run.learn(0, evaluation=1.0)
    with pytest.raises(KeyboardInterrupt), run.saver.last_checkpoint():
        raise KeyboardInterrupt
    assert run.files == []
    run.saver.attach(Content(b"some sequences"))
    run.learn(0)
    assert run.files == [CHECKPOINT(0), SNAPSHOT(0)]


def test_the_best_evaluation_is_kept_also_by_a_restart_and_replaced_if_damaged(tmp_path, caplog):
    def best():
        arrays, state = checkpoints.load(str(run.directory / "best.npz"))
        return float(arrays["w"][0]), state["counters"]["env_frames"]

    run = Run(tmp_path)
    for frames, evaluation in ((10, None), (20, 3.5), (30, 3.5), (40, -1.0)):
        run.learn(frames, evaluation)
    assert best() == (20, 20)
    assert run.files == ["best.npz"]
    run.saver.save()
    run = Run(tmp_path)
    run.saver.restore()
    run.learn(50, 3.0)
    assert best() == (20, 20), "a worse one after the restart"
    run.learn(60, 4.0)
    assert best() == (60, 60)
    assert checkpoints.newest(str(run.directory))[0].endswith(CHECKPOINT(40)), "the run continues from the newest"

    (run.directory / "best.npz").write_bytes(b"nonsense")
    run = Run(tmp_path)
    run.saver.restore()
    assert "best.npz will be replaced" in caplog.text
    run.learn(50, -5.0)
    assert best() == (50, 50)


def test_a_checkpoint_is_kept_for_good_after_each_multiple_of_frames(tmp_path, clock):
    run, kept = Run(tmp_path, keep_every_frames=100), "frames-{:012d}.npz".format
    for frames in (90, 110, 190, 420):
        clock.now += 10
        run.learn(frames)
    newest = [CHECKPOINT(110), CHECKPOINT(190), CHECKPOINT(420)]
    assert run.files == [*newest, kept(100), kept(400)]
    run = Run(tmp_path, keep_every_frames=100)
    run.saver.restore()
    run.learn(450)
    assert run.files == [*newest, kept(100), kept(400)]
    assert checkpoints.load(str(run.directory / kept(400)))[1]["counters"]["env_frames"] == 420


def test_the_last_checkpoint_is_written_at_the_end_and_after_leaving_but_not_after_a_failure(tmp_path):
    run = Run(tmp_path)
    for updates, leaving in enumerate((RuntimeError, GeneratorExit, KeyboardInterrupt), 1):
        run.progress.counters.learner_updates = updates
        with pytest.raises(leaving), run.saver.last_checkpoint():
            raise leaving
    run.progress.counters.learner_updates = 4
    with run.saver.last_checkpoint():
        pass
    assert run.files == [CHECKPOINT(2), CHECKPOINT(3), CHECKPOINT(4)]


def test_a_full_disk_is_tolerated_on_the_way_and_named_at_the_end(tmp_path, clock, caplog):
    run, message = Run(tmp_path, updates=1), "the last checkpoint can't be written (File too large); "
    clock.now += 10
    with largest_file(1000):
        run.saver.save_if_due()
    assert run.files == [], "the partial file is gone: it would fill the disk"
    assert "checkpoints can't be written (File too large): training continues, with retries" in caplog.text
    for newest in ("there is none", f"{run.directory / CHECKPOINT(1)} is the newest there is"):
        with largest_file(1000), pytest.raises(Failure) as error, run.saver.last_checkpoint():
            pass
        assert str(error.value) == message + newest
        run.progress.counters.learner_updates = 1
        run.saver.save()
        run.progress.counters.learner_updates = 2
    assert run.files == [CHECKPOINT(1)]


def test_a_checkpoint_to_keep_that_cannot_be_written_is_tried_again_when_one_is_due(tmp_path, clock, monkeypatch):
    run, tried, write = Run(tmp_path, keep_every_frames=100), [], checkpoints.write

    def fail(path, *content):
        tried.append(os.path.basename(path))
        if len(tried) < 3:
            raise OSError(28, "No space left on device")
        write(path, *content)

    monkeypatch.setattr(saving.checkpoints, "write", fail)
    for frames in (110, 120, 130):
        run.learn(frames)
    assert tried == ["frames-000000000100.npz"], "not at each update"
    clock.now += 10
    run.learn(140)
    clock.now += 10
    run.learn(150)
    assert run.files == [CHECKPOINT(150), "frames-000000000100.npz"]


def test_a_snapshot_is_saved_and_restored_with_its_checkpoint_and_without_it_the_replay_starts_empty(tmp_path, caplog):
    first = Run(tmp_path)
    for first.progress.counters.learner_updates in (7, 8):
        first.saver.attach(Content(b"of %d" % first.progress.counters.learner_updates))
        first.saver.save()
    assert first.files == [CHECKPOINT(7), CHECKPOINT(8), SNAPSHOT(8)], "one is kept"
    (first.directory / SNAPSHOT(9)).write_bytes(b"of a checkpoint that was never completed")

    second = Run(tmp_path)
    assert second.saver.restore() is not None
    second.saver.attach(found := Content())
    assert found.text == b"of 8"
    assert second.files == [CHECKPOINT(7), CHECKPOINT(8), SNAPSHOT(8)]
    os.remove(path := second.directory / SNAPSHOT(8))
    second.saver.attach(found := Content())
    assert found.text == b""
    assert f"there is no {path}: the replay starts empty" in caplog.text


def test_a_disk_too_full_for_the_replay_leaves_the_checkpoint(tmp_path, caplog):
    run = Run(tmp_path)
    run.saver.attach(Content(b"a part", OSError(28, "No space left on device")))
    run.saver.save()
    assert "copies of the replay can't be written (No space left on device): checkpoints are without" in caplog.text
    assert run.files == [CHECKPOINT(0)]


def test_the_checkpoint_takes_its_space_before_the_replay_and_its_name_after_it(tmp_path):
    run = Run(tmp_path)
    replay, seen = Content(b"small"), []
    replay.save = lambda file: seen.append({path.name: path.stat().st_size for path in run.directory.iterdir()})
    run.saver.attach(replay)
    with largest_file(1000), pytest.raises(OSError, match="File too large"):
        run.saver.save()
    assert run.files == [] == seen, "no replay keeps the space that its checkpoint lacks"
    run.saver.save()
    assert run.files == [CHECKPOINT(0), SNAPSHOT(0)]
    (sizes,) = seen
    assert sizes[f"{CHECKPOINT(0)}.partial"] == (run.directory / CHECKPOINT(0)).stat().st_size
    assert CHECKPOINT(0) not in sizes, "a kill meanwhile leaves the one before, with its replay"
