"""A learner between its checkpoints, and how it counts what it learns from."""

import contextlib
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.learner.learner import Learner
from seed_rl.learner.progress import Counters
from seed_rl.learner.sources import Batch, Source
from seed_rl.weights import checkpoints
from tests.support.learners import learner_of

SMALL = (
    "R2D2.hidden = 8",
    "R2D2.core_units = 4",
    "Replay.snapshot = True",
    "Replay.capacity = 8",
    "Replay.min_size = 8",
    "Actors.envs_per_group = 1",
    "Actors.num_eval_envs = 0",
)


def test_a_resumed_run_has_everything_that_was_saved(tmp_path):
    def start():
        return learner_of(config_files.load(["memory/r2d2"], SMALL), tmp_path)

    def end(learner):
        """End a run before its first update, with a last checkpoint."""
        stopped = threading.Event()
        stopped.set()
        assert list(learner.train(stopped)) == []
        learner.service.stop()

    first, directory = start(), tmp_path / "checkpoints"
    assert not first.progress.restored
    for acted, shown in ((0, 0), (50, 50), (10**6, first.experiment.frames_before_update // 2)):
        first.service.threads[0].stats.agent_steps = acted
        assert first._run_state().counters["env_frames"] == shown, "rows before the first update are not all at 0"
    end(first)
    path, arrays, state = checkpoints.newest(str(directory))
    os.remove(path)
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 100, array.shape).astype(array.dtype) for name, array in arrays.items()}
    assert any(name.startswith("optimizer/") for name in arrays), "momentum and step of the optimizer, too"
    state["counters"].update(learner_updates=7, agent_steps=700, env_frames=700, seconds=3.5, discarded_unrolls=2)
    state["episodes"] = {"episodes": [[1.0, 9], [-1.0, 9]], "count": 2, "total_return": 0.0}
    checkpoints.save(str(directory), 7, arrays, state, keep=3)
    (path,), (snapshot,) = checkpoints.paths(str(directory)), directory.glob("replay-*.npz")
    snapshot = snapshot.rename(directory / f"replay-{7:012d}.npz")
    (directory / "checkpoint-000000000008.npz.partial").touch()  # of a process that was killed

    second = start()
    assert not [*directory.glob("*.partial")]
    assert second.progress.restored
    assert second.counters.learner_updates == 7
    os.remove(path)
    end(second)
    saved, saved_state = checkpoints.load(path)
    assert saved_state == state
    np.testing.assert_equal(saved, arrays)

    snapshot.write_bytes(b"nonsense")
    sentence = f"{snapshot} is not usable: its arrays can't be read: .*; without it the replay starts empty"
    with pytest.raises(checkpoints.CheckpointError, match=sentence):
        start()


class Scripted(Source):
    """Takes the given number of unrolls at each call, with an end of an episode in each, and may have a batch."""

    def __init__(self, taken, *calls):
        self.taken, self.calls = taken, list(calls)

    @property
    def ends(self):
        return self.taken

    def next(self, timeout):
        taken, name = self.calls.pop(0)
        self.taken += taken
        return name and Batch([name], np.zeros(1), np.ones(1))


@pytest.mark.parametrize("learners", [1, 2])
def test_each_unroll_is_counted_once_however_often_it_is_replayed(learners):
    source = Scripted(7, (2, None), (3, "a"), (0, "b"), (0, None), (1, "c"))  # restored with 7, counted before
    counters, found = Counters(agent_steps=28, env_frames=84), []
    sizes = {"agent": SimpleNamespace(unroll_length=5), "env": SimpleNamespace(action_repeat=3)}
    others = dict.fromkeys(("replicas", "agent", "train_step", "saver", "acting", "copy_weights", "open_sinks"))
    learner = Learner(
        experiment=SimpleNamespace(total_frames=84 + learners * 72, **sizes),
        progress=SimpleNamespace(counters=counters),
        service=SimpleNamespace(raise_failure=lambda: None),
        source=source,
        learners=learners,
        **others,
    )
    for batch, env_frames in learner._rounds(threading.Event(), SimpleNamespace(waiting=contextlib.nullcontext)):
        found.append((batch and batch.parts[0], (counters.agent_steps - 28) / learners, (env_frames - 84) / learners))
        assert counters.env_frames == 3 * counters.agent_steps
    # Unrolls that only fill the replay count, too; progress is that before the batch.
    assert found == [(None, 8, 0), ("a", 20, 24), ("b", 20, 60), (None, 20, 60), ("c", 24, 60)], "and no more"
