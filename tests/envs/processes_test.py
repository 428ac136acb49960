import functools
import os
import signal

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

from seed_rl.envs import processes
from seed_rl.envs.processes import EnvironmentFailed, ProcessVectorEnv
from seed_rl.envs.registry import CannotBuild
from tests.support.failing_env import BE_KILLED, END_EPISODE, EXIT, GO_ON, RAISE, FailingEnv


@pytest.fixture
def make():
    made = []

    def make_envs(num_envs, **arguments):
        make_env = functools.partial(FailingEnv, **arguments)
        env = ProcessVectorEnv(make_env, num_envs, FailingEnv.observation_space, FailingEnv.action_space, "the thing")
        made.append(env)
        return env

    yield make_envs
    for env in made:
        env.close()


def pids(env):
    return env.reset()[0][:, 0].tolist()


def test_each_environment_has_a_process_and_a_seed_of_its_own(make):
    env = make(3)
    observation, _ = env.reset(seed=5)
    assert len({*observation[:, 0], os.getpid()}) == 4
    assert observation[:, 1].tolist() == [5, 6, 7]
    assert env.reset(seed=[9, None, 2])[0][:, 1].tolist() == [9, -1, 2]
    assert env.reset()[0][:, 1].tolist() == [-1, -1, -1]
    assert env.reset(seed=np.int64(5))[0][:, 1].tolist() == [5, 6, 7]


def test_an_episode_that_ends_shows_the_next_ones_first_observation(make):
    env = make(2)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=1)
    env.step(np.array([GO_ON, GO_ON]))
    observation, reward, terminated, truncated, _ = env.step(np.array([GO_ON, END_EPISODE]))
    assert observation[:, 1:].tolist() == [[1, 2], [-1, 0]]
    assert reward.tolist() == [2, 2]
    assert terminated.tolist() == [False, True]
    assert terminated.dtype == truncated.dtype == bool
    assert not truncated.any()


def test_what_a_step_returned_stays_as_it_is(make):
    env = make(1)
    env.reset(seed=1)
    first, reward, _, _, _ = env.step(np.array([GO_ON]))
    env.step(np.array([GO_ON]))
    assert first[0, 2] == reward[0] == 1


def test_an_error_comes_with_the_place_where_it_was_raised(make):
    env = make(2)
    env.reset(seed=1)
    with pytest.raises(EnvironmentFailed, match="the thing is lost") as error:
        env.step(np.array([GO_ON, RAISE]))
    assert "failing_env.py" in str(error.value.__cause__)


@pytest.mark.parametrize(("action", "how"), [(EXIT, "exit code 7"), (BE_KILLED, "SIGKILL")])
def test_the_end_of_a_process_is_told_in_a_sentence(make, action, how):
    env = make(2)
    others = psutil.Process(pids(env)[0])
    with pytest.raises(EnvironmentFailed, match=f"the process of environment 1 of 2 of the thing ended: {how}"):
        env.step(np.array([GO_ON, action]))
    env.close()
    assert not others.is_running()


def test_a_process_that_ended_between_two_steps_is_noticed(make):
    env = make(1)
    os.kill(pids(env)[0], signal.SIGKILL)
    env._processes[0].join(10)
    with pytest.raises(EnvironmentFailed, match="environment 0 of 1 of the thing ended: SIGKILL"):
        env.step(np.array([GO_ON]))


@pytest.mark.parametrize(
    ("fails", "error", "message"),
    [("cannot_build", CannotBuild, "no such thing here"), ("exit", EnvironmentFailed, "exit code 3")],
)
def test_a_failure_to_start_leaves_no_process(make, fails, error, message):
    before = set(psutil.Process().children())
    with pytest.raises(error, match=message):
        make(2, fails=fails)
    left = set(psutil.Process().children()) - before
    assert not [process for process in left if "spawn_main" in " ".join(process.cmdline())]


def test_what_hangs_is_killed_at_the_end(make, monkeypatch):
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.2)
    env = make(2, hangs_at_close=True)
    hanging = [psutil.Process(pid) for pid in pids(env)]
    env.close()
    env.close()
    assert not any(process.is_running() for process in hanging)


def test_an_interrupt_from_the_terminal_is_left_to_who_steps(make):
    env = make(1)
    os.kill(pids(env)[0], signal.SIGINT)
    observation, *_ = env.step(np.array([GO_ON]))
    assert observation[0, 2] == 1


def test_processes_end_with_the_one_that_steps_them(make):
    env = make(2)
    processes_of_env = [psutil.Process(pid) for pid in pids(env)]
    for connection in env._connections:  # what the system does when a process ends, however it ends
        connection.close()
    gone, alive = psutil.wait_procs(processes_of_env, timeout=20)
    assert len(gone) == 2
    assert not alive
