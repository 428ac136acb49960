"""A learner between its checkpoints."""

import os
import threading

import numpy as np
import pytest

from seed_rl.experiment import config_files
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
