"""Runs from Python."""

import collections
import contextlib
import dataclasses
import gc
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from seed_rl import api
from seed_rl.actor.loop import Actor
from seed_rl.api import (
    ELSEWHERE,
    THREADS,
    ActorFailed,
    CannotUse,
    ConfigError,
    Run,
    load_experiment,
    load_policy,
    open_run,
    read_metrics,
)
from seed_rl.envs import registry
from seed_rl.errors import Failure
from seed_rl.runs import run as runs
from seed_rl.runs.fleet import local_actors
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.weights import policy_sources
from tests.support.failing_env import Failing


def test_actors_in_this_process_may_load_what_its_own_experiment_names(tmp_path, monkeypatch):
    (tmp_path / "own_game.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    experiment = load_experiment(["gym/any"], ["Gym.id = 'own_game:Game-v0'"])
    local_actors(ELSEWHERE, experiment, str(tmp_path))
    assert not registry.may_import("own_game")
    local_actors(THREADS, experiment, str(tmp_path))
    assert registry.may_import("own_game")


STOP = threading.Event()
STOP.set()


@pytest.fixture
def over(monkeypatch):
    """What actors of each learner were told when it closed: whether the run is over."""
    told, stop = [], ActorServer.stop

    def tell(server, grace, **over):
        told.extend(over.values())
        stop(server, grace, **over)

    monkeypatch.setattr(ActorServer, "stop", tell)
    return told


def test_a_run_has_a_hundred_rows_however_fast_it_is_and_is_over_at_its_end(small_catch, tmp_path, over, caplog):
    caplog.set_level(logging.INFO)
    logdir, logs = tmp_path / "run", dataclasses.replace(small_catch.logs, metrics_interval_s=600.0)
    agent = dataclasses.replace(small_catch.agent, unroll_length=2)  # an update takes 8 frames
    fast = dataclasses.replace(small_catch, agent=agent, total_frames=1_000, logs=logs)
    with Run(fast, logdir, actors=THREADS) as run:
        (shown,) = run.train()
    frames = [row["env_frames"] for row in read_metrics(logdir)]
    assert len(frames) >= 100
    assert frames == sorted(set(frames))
    assert shown["env_frames"] == frames[-1] == load_policy(logdir).env_frames >= 1_000
    assert os.listdir(tmp_path) == ["run"]
    with Run(fast, logdir) as run:
        assert list(run.train()) == []
    assert f"the run in {logdir} is finished (" in caplog.text
    assert over == [True]


def test_an_error_of_the_caller_does_not_tell_actors_that_the_run_is_over(small_catch, tmp_path, over):
    endless = dataclasses.replace(small_catch, total_frames=10**9)
    with contextlib.suppress(ValueError), Run(endless, str(tmp_path), actors=THREADS) as run:
        for _ in run.train():
            raise ValueError
    assert over == [False]


def test_actors_wait_for_another_learner_if_the_end_of_a_run_cannot_be_kept(small_catch, tmp_path, over, caplog):
    with Run(dataclasses.replace(small_catch, total_frames=500), str(tmp_path), actors=THREADS) as run:
        run.flush = Mock(side_effect=Failure("the bucket is gone"))
        for _ in run.train():
            pass
    assert over == [False]
    assert "actors will wait for another learner: the bucket is gone" in caplog.text


def test_actors_that_look_for_a_finished_run_are_told_so(small_catch, tmp_path):
    short = dataclasses.replace(small_catch, total_frames=500)
    with Run(short, str(tmp_path), actors=THREADS) as run:
        list(run.train())
    address = f"unix:{tmp_path}/socket"
    with Run(short, str(tmp_path), actors=ELSEWHERE, address=address) as run:
        again = threading.Thread(target=lambda: list(run.train()))
        again.start()
        Actor(lambda: LearnerClient(address, ClientSecurity())).run()
        again.join()


def test_actors_that_fail_while_a_run_waits_for_others_are_its_error(small_catch, tmp_path):
    failed = SimpleNamespace(failed=ActorFailed("no such game"), start=lambda address: None, stop=lambda: None)
    with Run(small_catch, str(tmp_path), actors=lambda logs: failed) as run:
        run.meet = lambda stop: not stop.is_set()
        with pytest.raises(ActorFailed, match="no such game"):
            list(run.train())


def test_ctrl_c_in_a_program_saves_a_checkpoint(small_catch, tmp_path, over):
    endless, before = dataclasses.replace(small_catch, total_frames=10**9), signal.getsignal(signal.SIGINT)
    with Run(endless, str(tmp_path), actors=THREADS) as run:
        rows = run.train()
        first = next(row for row in rows if row["env_frames"] > 0)
        signal.raise_signal(signal.SIGINT)  # does not end the caller's own code in its middle
        with pytest.raises(KeyboardInterrupt):
            collections.deque(rows, maxlen=0)
    assert signal.getsignal(signal.SIGINT) is before
    assert over == [False], "actors wait for a run that was interrupted"
    assert load_policy(str(tmp_path)).env_frames >= first["env_frames"]


@pytest.mark.parametrize("name", ["learner.log", "native.log"])
def test_a_log_that_cannot_be_written(small_catch, tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(CannotUse, match=f"{tmp_path}/{name}"), Run(small_catch, str(tmp_path), native_log=True):
        pass


def test_a_directory_has_one_learner_which_serves_actors_of_elsewhere(small_catch, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with Run(small_catch, str(tmp_path)), pytest.raises(Failure, match="another learner is running in"):
        Run(small_catch, str(tmp_path)).__enter__()
    with Run(small_catch, str(tmp_path), actors=ELSEWHERE, address="localhost:0") as run:
        assert list(run.train(STOP)) == []
    assert re.search(r"serving actors at localhost:\d+ after", caplog.text)
    assert not [*tmp_path.glob("checkpoints/*")], "there is nothing to continue"


def test_without_a_neighbour_that_knows_it_a_url_is_refused(small_catch, monkeypatch):
    for module in (runs, policy_sources):
        monkeypatch.setattr(module, "declarations", lambda group: [])
    with pytest.raises(CannotUse, match="gs://a/run is a URL"):
        Run(small_catch, "gs://a/run").__enter__()
    with pytest.raises(ConfigError, match="gs://a/run is a URL"):
        open_run("gs://a/run").__enter__()
    with Run(small_catch, "runs/a").directory() as directory, open_run("runs/a") as found:
        assert directory == found == "runs/a"


def test_a_failing_environment_ends_the_run_with_its_error(small_catch, tmp_path, over):
    failing = dataclasses.replace(small_catch, env=Failing())
    with (
        Run(failing, str(tmp_path), actors=THREADS) as run,
        pytest.raises(ActorFailed, match="actor 0 failed: .*the game crashed"),
    ):
        list(run.train())
    assert over == [False]


def test_nothing_of_a_run_is_left_in_the_process(small_catch, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger("seed_rl"), "propagate", False)  # pytest keeps errors, and these frames
    short, kept, files = dataclasses.replace(small_catch, total_frames=320), [], []
    for number in range(4):
        with Run(short, str(tmp_path / str(number)), actors=THREADS) as run:
            rows = list(run.train())
        assert rows
        del run
        gc.collect()
        kept.append(collections.Counter(type(each).__qualname__ for each in gc.get_objects()))
        files.append(len(os.listdir("/proc/self/fd")))
    each_time = (kept[2] - kept[1]) & (kept[3] - kept[2])
    assert {kind: count for kind, count in each_time.items() if count >= 2} == {}, "two or more for each run"
    assert files[3] == files[1]


def test_misuse_is_an_error(small_catch, tmp_path):
    with pytest.raises(ValueError, match="somewhere"):
        Run(small_catch, str(tmp_path), actors="somewhere")
    with pytest.raises(RuntimeError, match="not open"):
        Run(small_catch, str(tmp_path)).train()


def test_a_run_without_its_accelerator_is_an_error_and_one_that_ends_before_other_learners_come_trains_nothing(
    small_catch, tmp_path
):
    with Run(small_catch, str(tmp_path), actors=ELSEWHERE, accelerator="gpu") as run:
        with pytest.raises(ConfigError, match="TensorFlow finds no GPU here, only the CPU"):
            next(run.train())
        run.accelerator, run.meet = "", lambda stop: False
        assert list(run.train(threading.Event())) == []


def test_the_public_interface_loads_tensorflow_for_agents_networks_and_policies_only(monkeypatch):
    with_tensorflow = {
        *("ActOutput", "Agent", "LossOutput", "ModelAgent", "VariableGroup", "create_weights", "transitions_of"),
        *("Evaluation", "Played", "evaluate_run", "play", "NoPolicy", "Policy", "load_policy"),
        *("stack_frames", "RunningMoments", "ResetGRU", "ResetLSTM", "TargetNetwork"),
        *("FrameConv", "Trunk", "TrunkModel"),
        *("ActionDistribution", "distribution_of", "mask_illegal", "lambda_returns", "vtrace"),
    }
    assert with_tensorflow < set(api.__all__)
    early = [name for name in api.__all__ if name not in with_tensorflow]
    state = "(gc.get_freeze_count(), gc.isenabled(), gc.get_threshold(), signal.getsignal(signal.SIGINT))"
    program = f"import gc, signal, sys; before = {state}; from seed_rl.api import {', '.join(early)}; "
    program += f"print(before == {state}, 'keras' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True False\n", ""), "the process is left alone"
    loaded = []
    monkeypatch.setattr(api, "load_tensorflow", lambda: loaded.append(True))
    for name in with_tensorflow:
        vars(api).pop(name, None)
        assert getattr(api, name).__module__.startswith("seed_rl.")
    assert len(loaded) == len(with_tensorflow)
