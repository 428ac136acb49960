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
from gymnasium.wrappers import TimeLimit

from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.envs.vector import processes
from seed_rl.envs.vector.final import final_numbers
from seed_rl.envs.vector.processes import ProcessVectorEnv, alone
from tests.support.deadlines import within
from tests.support.failing_env import EXIT, GO_ON, RAISE, FailingEnv


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


def test_each_environment_has_a_process_and_a_seed_of_its_own(make, wait_for, capfd):
    env = make(2)
    observation, _ = env.reset(seed=np.int64(5))
    own = observation[:, 0].tolist()
    assert len({*own, os.getpid()}) == 3
    assert observation[:, 1].tolist() == [5, 6]
    assert env.reset()[0][:, 1].tolist() == [-1, -1]
    assert [os.getsid(pid) for pid in own] == own, "an interrupt from the terminal does not reach it"
    wait_for(lambda: "the thing has begun" in capfd.readouterr().err)


def test_the_end_of_an_episode_comes_with_its_last_observation_and_numbers():
    makers = [alone(functools.partial(TimeLimit, FailingEnv(), limit)) for limit in (2, 3)]
    with contextlib.closing(ProcessVectorEnv(makers, "the thing")) as env:
        env.reset(seed=1)
        assert env.step(np.array([GO_ON, GO_ON]))[4] == {}
        *_, truncated, info = env.step(np.array([GO_ON, GO_ON]))
        assert truncated.tolist() == [True, False]
        assert final_numbers(info, truncated) == [(0, "steps", 2.0)]
        assert info["final_obs"][0].tolist()[1:] == [1, 2]
        assert info["final_obs"][1] is None


def test_only_arrays_with_a_value_for_each_environment_are_numbers_of_episodes():
    values = {"steps": np.array([3.0, 4.0]), 7: np.array([1.0, 2.0]), "": np.array([5.0, 6.0])}
    masks = {"_steps": np.array([False, True]), "_7": np.array([True, False])}
    final = values | masks | {"time": np.array(9.0), "weights": np.zeros(1), "table": np.zeros((3, 2)), "text": "none"}
    assert final_numbers({"final_info": final}, np.array([False, True])) == [(1, "steps", 4.0)]
    assert final_numbers({"final_info": final}, np.array([True, False])) == [(0, "7", 1.0)]


def test_an_error_comes_with_the_place_where_it_was_raised(make):
    env = make(2)
    env.reset(seed=1)
    with pytest.raises(EnvironmentFailed, match="the thing is lost") as raised:
        env.step(np.array([GO_ON, RAISE]))
    assert re.search(r'failing_env.py", line (.|\n)* in step', str(raised.value.__cause__))


def test_the_death_of_a_process_is_an_error_with_its_last_words(make):
    env = make(2)
    other = psutil.Process(pids(env)[0])
    sentence = "the process of environment 1 of 2 of the thing ended in step: exit code 7; its last words: .*no map"
    with pytest.raises(EnvironmentFailed, match=sentence):
        env.step(np.array([GO_ON, EXIT]))
    assert len(os.listdir(env._folder)) == 2, "of the environments' temporary files"
    env.close()
    assert not other.is_running()
    assert not os.path.exists(env._folder)


def test_the_death_of_a_process_between_two_steps_is_noticed(make):
    env = make(1)
    (pid,) = pids(env)
    psutil.Process(pid).kill()
    env.processes[0].wait(within(10))
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
    assert not psutil.wait_procs(hanging, timeout=within(5))[1]


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
        _, alive = psutil.wait_procs(alive, timeout=within(20))
    assert not alive
    wait_for(lambda: not os.path.exists(folder))
