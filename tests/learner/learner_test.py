"""A learner between its checkpoints."""

import os
import threading

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.learner.building import build_learner
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.weights import checkpoints

SMALL = ("VTrace.hidden = 8", "VTrace.core = 'lstm'", "VTrace.core_units = 4")


@pytest.fixture
def start(tmp_path):
    """Makes a learner of an experiment."""

    def make(config, *bindings):
        experiment = config_files.load([config], ["Actors.envs_per_group = 1", *bindings])
        return build_learner(experiment, str(tmp_path), f"unix:{tmp_path}/learner.sock", ServerSecurity())

    return make


def end(learner):
    """End a run before its first update, with a last checkpoint."""
    stopped = threading.Event()
    stopped.set()
    learner.listen()
    assert list(learner.train(stopped)) == []
    learner.close()


def test_a_resumed_run_has_everything_that_was_saved(start, tmp_path):
    first = start("catch/vtrace", *SMALL)
    assert first.restored_from is None
    end(first)
    path, arrays, state = checkpoints.newest(str(tmp_path / "checkpoints"))
    os.remove(path)
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 100, array.shape).astype(array.dtype) for name, array in arrays.items()}
    assert any(name.startswith("optimizer/") for name in arrays), "momentum and step of the optimizer, too"
    state["counters"].update(learner_updates=7, agent_steps=700, env_frames=700, seconds=3.5, discarded_unrolls=2)
    state["episodes"] = {"episodes": [[1.0, 9], [-1.0, 9]], "count": 2, "total_return": 0.0}
    checkpoints.save(str(tmp_path / "checkpoints"), 7, arrays, state, keep=3)
    (path,) = checkpoints.paths(str(tmp_path / "checkpoints"))

    second = start("catch/vtrace", *SMALL)
    assert second.restored_from == path
    assert second.counters.learner_updates == 7
    os.remove(path)
    end(second)
    saved, saved_state = checkpoints.load(path)
    assert saved_state == state
    assert saved.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(saved[name], array, err_msg=name)


def test_the_replay_is_saved_with_the_checkpoint_and_read_at_the_next_start(start, tmp_path):
    settings = ("Replay.snapshot = True", "Replay.capacity = 8", "Replay.min_size = 8", "Actors.num_eval_envs = 0")
    end(start("memory/r2d2", *settings))
    (snapshot,) = (tmp_path / "checkpoints").glob("replay-*.npz")
    snapshot.write_bytes(b"nonsense")
    with pytest.raises(checkpoints.CheckpointError, match=f"{snapshot} is not usable"):
        start("memory/r2d2", *settings)
