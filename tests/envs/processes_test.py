import contextlib
import functools
import os
import re
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.envs.vector import processes
from seed_rl.envs.vector.final import final_numbers
from seed_rl.envs.vector.processes import ProcessVectorEnv, alone
from tests.support.failing_env import BE_KILLED, END_EPISODE, EXIT, GO_ON, RAISE, FailingEnv


@pytest.fixture
def make():
    with contextlib.ExitStack() as made:

        def make_envs(num_envs, **arguments):
            makers = [alone(functools.partial(FailingEnv, **arguments))] * num_envs
            return made.enter_context(contextlib.closing(ProcessVectorEnv(makers, "the thing")))

        yield make_envs


def with_descendants(pids):
    """Processes, and those that they started."""
    parents = [psutil.Process(pid) for pid in pids]
    while any(len(parent.children(recursive=True)) < 2 for parent in parents):
        time.sleep(0.01)  # until the shell has started its program
    return [*parents, *(child for parent in parents for child in parent.children(recursive=True))]


def pids(env):
    return env.reset()[0][:, 0].tolist()


def test_each_environment_has_a_process_and_a_seed_of_its_own(make):
    env = make(3)
    observation, _ = env.reset(seed=np.int64(5))
    assert len({*observation[:, 0], os.getpid()}) == 4
    assert observation[:, 1].tolist() == [5, 6, 7]
    assert env.reset()[0][:, 1].tolist() == [-1, -1, -1]


def test_steps_return_copies_and_the_end_of_an_episode_the_next_ones_first_observation(make):
    env = make(2)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=1)
    first, first_reward, *_ = env.step(np.array([GO_ON, GO_ON]))
    observation, reward, terminated, truncated, info = env.step(np.array([GO_ON, END_EPISODE]))
    assert final_numbers(info, terminated) == [(1, "steps", 2.0)]
    assert observation[:, 1:].tolist() == [[1, 2], [-1, 0]]
    assert reward.tolist() == [2, 2]
    assert terminated.tolist() == [False, True]
    assert terminated.dtype == truncated.dtype == bool
    assert not truncated.any()
    assert first[:, 2].tolist() == first_reward.tolist() == [1, 1]


def test_a_truncated_episode_comes_with_its_last_observation():
    makers = [alone(functools.partial(TimeLimit, FailingEnv(), limit)) for limit in (2, 3)]
    with contextlib.closing(ProcessVectorEnv(makers, "the thing")) as env:
        env.reset(seed=1)
        assert env.step(np.array([GO_ON, GO_ON]))[4] == {}
        *_, truncated, info = env.step(np.array([GO_ON, GO_ON]))
        assert truncated.tolist() == [True, False]
        assert info["final_obs"][0].tolist()[1:] == [1, 2]
        assert info["final_obs"][1] is None


def test_an_error_comes_with_the_place_where_it_was_raised(make):
    env = make(2)
    env.reset(seed=1)
    with pytest.raises(EnvironmentFailed, match="the thing is lost") as raised:
        env.step(np.array([GO_ON, RAISE]))
    assert re.search(r'failing_env.py", line (.|\n)* in step', str(raised.value.__cause__))


@pytest.mark.parametrize(("action", "how"), [(EXIT, "exit code 7; its last words: .*no map"), (BE_KILLED, "SIGKILL")])
def test_the_death_of_a_process_is_an_error_that_says_how(make, action, how):
    env = make(2)
    other = psutil.Process(pids(env)[0])
    with pytest.raises(EnvironmentFailed, match=f"the process of environment 1 of 2 of the thing ended in step: {how}"):
        env.step(np.array([GO_ON, action]))
    assert len(os.listdir(env._folder)) == 2, "of the environments' temporary files"
    env.close()
    assert not other.is_running()
    assert not os.path.exists(env._folder)


def test_what_environments_print_is_passed_on(make, wait_for, capfd):
    make(1).step(np.array([GO_ON]))
    wait_for(lambda: "the thing has begun" in capfd.readouterr().err)


def test_the_death_of_a_process_between_two_steps_is_noticed(make):
    env = make(1)
    (pid,) = pids(env)
    psutil.Process(pid).kill()
    env.processes[0].wait(10)
    with pytest.raises(EnvironmentFailed, match="the process of the thing ended in step: SIGKILL"):
        env.step(np.array([GO_ON]))


@pytest.mark.parametrize(
    ("fails", "error", "message"),
    [("cannot_build", CannotBuild, "no such thing here"), ("exit", EnvironmentFailed, "exit code 3")],
)
def test_a_failure_to_start_leaves_no_process(make, fails, error, message):
    before = set(psutil.Process().children())
    with pytest.raises(error, match=message):
        make(2, fails=fails)
    assert set(psutil.Process().children()) <= before


def test_an_environment_that_hangs_is_killed_at_the_end(make, monkeypatch):
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.2)
    env = make(2, hangs_at_close=True, compiles=True)
    hanging = with_descendants(pids(env))
    assert len(hanging) == 2 * 3, "each with a shell, and the program that it started"
    env.close()
    env.close()
    assert not psutil.wait_procs(hanging, timeout=5)[1]


def test_an_interrupt_from_the_terminal_does_not_reach_the_environments(make):
    (pid,) = pids(make(1))
    assert os.getsid(pid) == pid != os.getsid(0)


def test_processes_end_with_the_one_that_steps_them(wait_for):
    program = """
import functools
import sys
from seed_rl.envs.vector.processes import ProcessVectorEnv, alone
from tests.support.failing_env import FailingEnv
if __name__ == "__main__":
    env = ProcessVectorEnv([alone(functools.partial(FailingEnv, compiles=True))] * 2, "the thing")
    print(env._folder, *env.reset()[0][:, 0], flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as stepping:
        folder, *numbers = stepping.stdout.readline().split()
        alive = with_descendants(map(int, numbers))
        assert len(os.listdir(folder)) == 2
        assert len(alive) == 2 * 3
        stepping.kill()
        _, alive = psutil.wait_procs(alive, timeout=20)
    assert not alive
    wait_for(lambda: not os.path.exists(folder))
