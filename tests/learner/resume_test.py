import os

import numpy as np
import pytest

from seed_rl import experiment
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.learner.learner import Learner
from seed_rl.transport.credentials import ServerSecurity


def build(logdir, *bindings):
    loaded = experiment.load(["catch/vtrace"], bindings)
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


def test_a_full_disk_does_not_end_training(tmp_path, monkeypatch, caplog):
    learner = build(tmp_path)

    def full(*arguments, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    learner._try_to_save()
    assert "No space left on device" in caplog.text
    assert [name for name in os.listdir(tmp_path / "checkpoints") if name.endswith(".npz")] == []
