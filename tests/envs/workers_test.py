"""Environments with a process each: Gymnasium's, with sentences for their errors and an end in any case."""

import contextlib
import functools
import os

import numpy as np
import psutil
import pytest

from seed_rl.envs.base import EnvironmentFailed
from seed_rl.envs.vector import workers
from seed_rl.envs.vector.final import final_numbers
from seed_rl.envs.vector.workers import WorkersVectorEnv
from tests.support.deadlines import within
from tests.support.failing_env import EXIT, GO_ON, FailingEnv


@pytest.fixture
def make():
    with contextlib.ExitStack() as made:

        def make_envs(num_envs, **arguments):
            makers = [functools.partial(FailingEnv, **arguments)] * num_envs
            return made.enter_context(contextlib.closing(WorkersVectorEnv(makers, "the thing")))

        yield make_envs


def test_each_environment_has_a_process_and_a_seed_of_its_own_and_may_finish_its_close(make, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "CLOSE_SECONDS", within(10))
    env = make(2, leaves=tmp_path)
    observation, _ = env.reset(seed=np.int64(5))
    pids = observation[:, 0].tolist()
    assert len({*pids, os.getpid()}) == 3
    assert observation[:, 1].tolist() == [5, 6]
    assert env.reset()[0][:, 1].tolist() == [-1, -1]
    psutil.Process(pids[0]).send_signal(2)
    assert env.step(np.array([GO_ON, GO_ON]))[1].tolist() == [1, 1], "Ctrl-C is for the parent"
    env.close()
    assert {*map(str, pids)} <= {path.name for path in tmp_path.iterdir()}


def test_only_arrays_with_a_value_for_each_environment_are_numbers_of_episodes():
    values = {"steps": np.array([3.0, 4.0]), 7: np.array([1.0, 2.0]), "": np.array([5.0, 6.0])}
    masks = {"_steps": np.array([False, True]), "_7": np.array([True, False])}
    final = values | masks | {"time": np.array(9.0), "weights": np.zeros(1), "table": np.zeros((3, 2)), "text": "none"}
    assert final_numbers(final, np.array([False, True])) == [(1, "steps", 4.0)]
    assert final_numbers(final, np.array([True, False])) == [(0, "7", 1.0)]


def test_the_death_of_a_process_is_an_error(make):
    env = make(2)
    env.reset()
    with pytest.raises(EnvironmentFailed, match="a process of the thing ended in step; its output says why"):
        env.step(np.array([GO_ON, EXIT]))


def test_an_environment_that_hangs_is_killed_at_the_end(make, monkeypatch):
    monkeypatch.setattr(workers, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(FailingEnv, "close", lambda env: None)  # of the one that is made here for its spaces
    env = make(2, hangs_at_close=True)
    hanging = [psutil.Process(int(pid)) for pid in env.reset()[0][:, 0]]
    env.close()
    env.close()
    assert not psutil.wait_procs(hanging, timeout=within(5))[1]
