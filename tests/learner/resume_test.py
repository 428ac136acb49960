import contextlib
import glob
import os
import resource

import numpy as np
import pytest

from seed_rl import config_files
from seed_rl.learner import assembly
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.learner.learner import Learner
from seed_rl.transport.credentials import ServerSecurity


def build(logdir, *bindings, config="catch/vtrace"):
    loaded = config_files.load([config], bindings)
    return Learner(loaded, str(logdir), f"unix:{logdir}/unused.sock", ServerSecurity())


def values(learner):
    return {name: variable.numpy().copy() for name, variable in learner._variables.items()}


def test_a_resumed_run_has_everything_that_was_saved(tmp_path):
    first = build(tmp_path)
    assert first.restored_from is None
    rng = np.random.default_rng(0)
    for variable in first._variables.values():
        variable.assign(rng.integers(0, 100, variable.shape))
    first.counters.learner_updates, first.counters.env_frames, first.counters.seconds = 7, 700, 3.5
    first.counters.discarded_unrolls = 2
    first.episodes.add(np.array([1.0, -1.0]), np.array([9, 9]))
    first.save()

    second = build(tmp_path)
    assert second.restored_from is not None
    assert second.counters == first.counters
    assert second.episodes.get_state() == first.episodes.get_state()
    saved, restored = values(first), values(second)
    assert any(name.startswith("optimizer/") for name in saved), "momentum and step of the optimizer too"
    for name, value in saved.items():
        np.testing.assert_array_equal(restored[name], value, err_msg=name)


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    first = build(tmp_path)
    first.counters.learner_updates = 1
    first.save()
    with pytest.raises(CheckpointError, match=r"shape \(50, 64\), needed is \(50, 32\)"):
        build(tmp_path, "VTrace.hidden = 32")


@contextlib.contextmanager
def full_disk():
    """Files of this process can't grow any more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_last_checkpoint_that_does_not_fit_is_told_with_the_newest_there_is(tmp_path):
    learner = build(tmp_path)
    with full_disk(), pytest.raises(CheckpointError, match="can't be written \\(File too large\\); there is none$"):
        learner._save_last()
    assert os.listdir(tmp_path / "checkpoints") == [], "what was begun is gone: it would fill the disk"
    learner.save()
    learner.counters.learner_updates = 1
    with full_disk(), pytest.raises(CheckpointError, match="checkpoint-000000000000.npz is the newest there is$"):
        learner._save_last()
    assert os.listdir(tmp_path / "checkpoints") == ["checkpoint-000000000000.npz"]


def build_replaying(logdir, *bindings):
    return build(logdir, "Replay.snapshot = True", *bindings, config="catch/r2d2")


def save_with_replay(logdir):
    """A learner of seven updates with three unrolls in its replay, saved."""
    learner = build_replaying(logdir)
    learner._source.insert(learner._acting[0].pool.acquire(3))
    learner.counters.learner_updates = 7
    learner.save()
    return learner


def replays(logdir):
    return [os.path.basename(path) for path in glob.glob(f"{logdir}/checkpoints/replay-*")]


def test_a_resumed_run_has_its_replay(tmp_path):
    first = save_with_replay(tmp_path)
    assert replays(tmp_path) == ["replay-000000000007.npz"]
    second = build_replaying(tmp_path)
    assert (len(second._source), second._source.taken) == (len(first._source), first._source.taken) == (3, 3)
    second._count_taken()
    assert second.counters.agent_steps == first.counters.agent_steps, "they were counted when they were taken"

    second.counters.learner_updates = 8
    second.save()
    assert replays(tmp_path) == ["replay-000000000008.npz"], "one is kept"
    third = build(tmp_path, config="catch/r2d2")
    assert len(third._source) == 0, "without snapshots nothing is restored"
    assert replays(tmp_path) == ["replay-000000000008.npz"]


def test_a_lost_replay_is_filled_anew(tmp_path, caplog):
    save_with_replay(tmp_path)
    os.rename(
        tmp_path / "checkpoints" / "replay-000000000007.npz", tmp_path / "checkpoints" / "replay-000000000009.npz"
    )
    learner = build_replaying(tmp_path)
    assert learner.restored_from is not None
    assert len(learner._source) == 0
    assert "the replay is filled anew" in caplog.text
    assert replays(tmp_path) == [], "that of a checkpoint that was never written is gone"


def test_a_damaged_replay_is_named(tmp_path):
    save_with_replay(tmp_path)
    (tmp_path / "checkpoints" / "replay-000000000007.npz").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"replay-000000000007.npz is of no use: it can't be read"):
        build_replaying(tmp_path)


def test_a_disk_too_full_for_the_replay_leaves_the_checkpoint(tmp_path, monkeypatch, caplog):
    learner = build_replaying(tmp_path)

    def full(file):
        file.write(b"a part")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(learner._source, "save", full)
    learner.save()
    learner.save()
    told = [record.message for record in caplog.records if "replay" in record.message]
    assert told == ["copies of the replay can't be written (No space left on device): checkpoints are without them"]
    assert os.listdir(tmp_path / "checkpoints") == ["checkpoint-000000000000.npz"]


@pytest.mark.parametrize("config", ["catch/vtrace", "catch/r2d2"])
def test_the_store_is_as_large_as_was_said_before(config, monkeypatch, tmp_path):
    sizes = []
    place = assembly.place_store

    def record(size, *where):
        sizes.append(size)
        return place(size, *where)

    monkeypatch.setattr(assembly, "place_store", record)
    learner = build(tmp_path, config=config)
    assert [size.nbytes for size in sizes] == ([learner._acting[0].store.nbytes] if config == "catch/r2d2" else [])


def test_a_checkpoint_of_another_version_is_told(tmp_path):
    learner = build(tmp_path)
    arrays = {name: variable.numpy() for name, variable in learner._variables.items()}
    learner._checkpoints.save(3, arrays, {"episodes": learner.episodes.get_state()})
    with pytest.raises(CheckpointError, match="of another version of seed_rl: 'eval_episodes'"):
        build(tmp_path)
