"""A learner between its checkpoints."""

import os
import threading

import numpy as np

from seed_rl.experiment import config_files
from seed_rl.learner import checkpoints
from seed_rl.learner.learner import Learner
from seed_rl.transport.credentials import ServerSecurity

SMALL = ("VTrace.hidden = 8", "VTrace.core = 'lstm'", "VTrace.core_units = 4", "Actors.envs_per_group = 1")


def test_a_resumed_run_has_everything_that_was_saved(tmp_path):
    """Both starts end before the first update, with a last checkpoint."""
    stopped = threading.Event()
    stopped.set()

    def start():
        experiment = config_files.load(["catch/vtrace"], SMALL)
        return Learner(experiment, str(tmp_path), f"unix:{tmp_path}/learner.sock", ServerSecurity())

    def end(learner):
        learner.listen()
        assert list(learner.train(stopped)) == []
        learner.close()

    first = start()
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

    second = start()
    assert second.restored_from == path
    assert second.counters.learner_updates == 7
    os.remove(path)
    end(second)
    saved, saved_state = checkpoints.load(path)
    assert saved_state == state
    assert saved.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(saved[name], array, err_msg=name)
