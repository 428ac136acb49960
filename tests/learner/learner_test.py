"""A learner between its checkpoints, what it counts, and when it gives up."""

import contextlib
import dataclasses
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.experiment import config_files
from seed_rl.learner.learner import PATIENCE, Learner
from seed_rl.learner.progress import Counters
from seed_rl.learner.sources import Batch, Source
from seed_rl.learner.train_step import UpdateResult
from seed_rl.reporting.learning import Diverged
from seed_rl.runs.assembly import Assembly
from seed_rl.weights import checkpoints

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
        experiment = config_files.load(["memory/r2d2"], SMALL)
        with contextlib.ExitStack() as cleanup:
            return Assembly().learner(Assembly().parts(experiment, str(tmp_path), cleanup))

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


def learner_with(source, total_frames, **parts):
    """A learner of a few parts, which trains on three frames per step and five steps per unroll."""
    names = [field.name for field in dataclasses.fields(Learner) if field.default is dataclasses.MISSING]
    agent, env = SimpleNamespace(unroll_length=5), SimpleNamespace(action_repeat=3)
    experiment = SimpleNamespace(agent=agent, env=env, total_frames=total_frames, seed=1)
    progress = SimpleNamespace(counters=Counters(agent_steps=28, env_frames=84))
    own = {"source": source, "experiment": experiment, "progress": progress}
    return Learner(**dict.fromkeys(names) | own | parts)


@pytest.mark.parametrize("learners", [1, 2])
def test_each_unroll_is_counted_once_however_often_it_is_replayed(learners):
    source = Scripted(7, (2, None), (3, "a"), (0, "b"), (0, None), (1, "c"))  # restored with 7, counted before
    service, found = SimpleNamespace(raise_failure=lambda: None), []
    learner = learner_with(source, 84 + learners * 72, service=service, learners=learners)
    for batch, env_frames in learner._rounds(threading.Event(), SimpleNamespace(waiting=contextlib.nullcontext)):
        steps, frames = (learner.counters.agent_steps - 28) / learners, (env_frames - 84) / learners
        found.append((batch and batch.parts[0], steps, frames))
        assert learner.counters.env_frames == 3 * learner.counters.agent_steps
    # Unrolls that only fill the replay count, too; progress is that before the batch.
    assert found == [(None, 8, 0), ("a", 20, 24), ("b", 20, 60), (None, 20, 60), ("c", 24, 60)], "and no more"


def test_updates_in_a_row_that_are_not_finite_end_the_run(caplog):
    bad = UpdateResult({}, np.zeros(0), optimizer_steps=0, left_out=3)
    good = UpdateResult({"loss": 1.5}, np.zeros(0), optimizer_steps=4, left_out=0)
    results = iter([*[bad] * (PATIENCE - 1), good, *[bad] * PATIENCE])
    acting = SimpleNamespace(unrolls=SimpleNamespace(queue=UnrollQueue(2)), cursor=SimpleNamespace())
    acting.unrolls.queue.put(np.array([3]))
    learner = learner_with(
        Scripted(0),
        total_frames=1000,
        replicas=SimpleNamespace(scope=contextlib.nullcontext, join=lambda parts: parts[0]),
        agent=SimpleNamespace(after_update=lambda updates: None),
        train_step=lambda *_: next(results),
        acting=[acting],
        copy_weights=lambda: None,
    )
    learner.counters.learner_updates = 7
    batch = Batch(["a"], np.array([4, 6]), np.ones(2))
    for _ in range(PATIENCE - 1):
        assert learner._update(batch, 84) == {}
    assert learner._update(batch, 84) == {"loss": 1.5, "queue_fill": 0.5, "policy_lag": 2.0}
    assert acting.cursor.newest_version == learner.counters.learner_updates == 8
    for _ in range(PATIENCE - 1):
        learner._update(batch, 84)
    with pytest.raises(Diverged, match=f"gradients of {PATIENCE} updates in a row were not finite"):
        learner._update(batch, 84)
    assert (learner.counters.optimizer_steps, learner.counters.left_out_steps) == (4, 3 * (2 * PATIENCE - 1))
    assert caplog.text.count("3 steps of an update were left out") == 2, "once in a row"
