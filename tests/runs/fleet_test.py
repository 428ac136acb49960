"""Actors that die, as the person who started the run sees it."""

import dataclasses
import itertools
import json
import re
import signal
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from seed_rl.api import ActorFailed, Run
from seed_rl.envs.gym import Gym
from seed_rl.experiment import Actors, Inference
from seed_rl.runs import fleet
from seed_rl.runs.fleet import ActorEnd, LocalActors, SupervisedFleet
from seed_rl.system.children import how_it_ended
from tests.support.deadlines import within
from tests.support.failing_env import Failing

TRACEBACK = """12:00:00 E seed_rl.actor.loop: an environment failed
Traceback (most recent call last):
  File "x.py", line 1, in <module>
KeyError: 'the thing'
"""


@pytest.mark.parametrize(
    ("code", "text", "how"),
    [
        (3, "", "exit code 3"),
        (3, "its name is \x1b]0;mine\x07 caf\xe9", "its name is \\x1b]0;mine\\x07 caf\ufffd"),
        (1, f"{TRACEBACK}seed_rl actor: no thing\nException ignored in: x\n", "no thing"),
        (1, f"{TRACEBACK}\n", "KeyError: 'the thing'"),
        (-6, "free(): invalid pointer\n", "killed by SIGABRT: free(): invalid pointer"),
        (-40, "", "killed by signal 40"),
    ],
)
def test_the_end_of_a_process_is_one_line(code, text, how, tmp_path):
    path, before = tmp_path / "log", b"seed_rl actor: an earlier process\n"
    path.write_bytes(before + text.encode("latin-1"))
    assert how_it_ended(code, str(path), len(before)) == how


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a shell script into the place of the program that is an actor, which is started again at once."""
    monkeypatch.setattr(fleet, "growing_delays", lambda: itertools.repeat(0.01))

    def put(script):
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


def test_actors_that_end_for_the_same_reason_give_one_warning_that_names_a_log(program, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fleet, "MAX_FAILURES", 2)
    program("echo seed_rl actor: no luck; exit 1")
    over = threading.Event()
    actors = LocalActors(3, str(tmp_path), on_failure=over.set)
    actors.start("unix:/nowhere")
    assert over.wait(within(60))
    actors.stop()
    log = rf"\(log: {tmp_path}/actor-\d.log\)"
    assert re.fullmatch(rf"actor \d ended 2 times in a row: no luck {log}", str(actors.failed))
    assert actors.restarts >= 1
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert re.fullmatch(rf"actor \d ended: no luck; restarting in \d\.\d s {log}", warning)


def test_an_actor_that_ends_with_the_run_or_could_never_run_is_not_started_again(program, tmp_path, caplog):
    for script, failure in (
        ("exit 0", None),
        ("echo seed_rl actor: no address; exit 2", f"actor 0 can't run: no address (log: {tmp_path}/actor-0.log)"),
    ):
        program(script)
        actors = LocalActors(1, str(tmp_path))
        actors.start("unix:/nowhere")
        actors._threads[0].join(within(60))
        assert not actors._threads[0].is_alive()
        assert (actors.restarts, actors.failed and str(actors.failed), caplog.records) == (0, failure, [])


def test_only_early_failures_count_and_an_actor_that_has_lasted_may_fail_to_start(tmp_path, monkeypatch):
    class Scripted(SupervisedFleet):
        def _run(self, number, log):
            nonlocal now
            seconds, useless = ends.pop(0)
            now += seconds
            return ActorEnd(f"{len(ends)} are left", useless=useless)

        def _end(self, handle, kill): ...

    now, over = 0.0, threading.Event()
    ends = [(60, False), (60, True), (1, False), (60, False), (1, False), (60, True), (1, False), (1, False)]
    monkeypatch.setattr(fleet, "time", SimpleNamespace(monotonic=lambda: now))
    actors = Scripted(1, str(tmp_path), on_failure=over.set)
    monkeypatch.setattr(actors._stopping, "wait", lambda delay: None)
    actors.start("unix:/nowhere")
    assert over.wait(within(10))
    assert re.match(r"actor 0 ended 3 times in a row: 1 are left", str(actors.failed))


@pytest.mark.parametrize("end", ["kill -KILL $$", f"exit {128 + signal.SIGTERM}"])
def test_an_actor_that_is_killed_is_started_each_time(end, program, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fleet, "MAX_FAILURES", 1)
    program(end)
    over = threading.Event()
    actors = LocalActors(1, str(tmp_path), on_failure=over.set)
    actors.start("unix:/nowhere")
    while actors.restarts < 2:
        assert not over.wait(0.01), actors.failed
    actors.stop()
    assert caplog.text.count("actor 0 ended: ") >= 2, "one warning for each"


def test_an_actor_that_does_not_end_is_left_behind(tmp_path, caplog):
    class Stuck(SupervisedFleet):
        def _run(self, number, log):
            begun.set()
            released.wait()
            return ActorEnd("it was released")

        def _end(self, handle, kill): ...

    begun, released = threading.Event(), threading.Event()
    actors = Stuck(1, str(tmp_path))
    actors.start("unix:/nowhere")
    assert begun.wait(within(10))
    actors.stop(grace=0.01)
    released.set()
    assert "1 of 1 actors don't respond and are left running" in caplog.text


def processes_of(address):
    """Actors of a learner's address."""
    return [p for p in psutil.process_iter(["cmdline"]) if f"--server_address={address}" in (p.info["cmdline"] or [])]


def test_a_failing_environment_is_reported_in_a_sentence_and_its_log_has_the_traceback(
    small_catch, tmp_path, monkeypatch
):
    monkeypatch.setattr(fleet, "MAX_FAILURES", 1)
    experiment, address = dataclasses.replace(small_catch, env=Failing()), f"unix:{tmp_path}/s"
    log = tmp_path / "run" / "actors" / "actor-0.log"
    why = "actor 0 ended 1 times in a row: .*suite 'failing' failed in step: OSError: the game crashed"
    with (
        Run(experiment, str(tmp_path / "run"), address=address) as run,
        pytest.raises(ActorFailed, match=rf"^{why}.* \(log: {log}\)$"),
    ):
        list(run.train())
    assert "Traceback" in log.read_text()
    assert "failing_env.py" in log.read_text(), "where it failed"
    assert not processes_of(address)


@pytest.mark.parametrize(("vectorization", "what"), [("sync", "step"), ("async", "reset")])
def test_an_environment_that_hangs_is_named_and_its_actor_starts_again(
    vectorization, what, small_catch, tmp_path, caplog
):
    hang, address = tmp_path / "hang", f"unix:{tmp_path}/s"
    hang.touch()
    options = json.dumps({"hang": str(hang), "what": what})
    env = Gym("tests.support.registered_envs:Hanging-v0", vectorization, options=options)
    actors, total = Actors(1, 1, 4, hang_timeout_s=5.0), 1_000_000
    experiment = dataclasses.replace(small_catch, env=env, actors=actors, total_frames=total, inference=Inference(4))
    with Run(experiment, str(tmp_path / "run"), address=address) as run:
        for row in run.train():
            if row.get("groups_hung") and row["environments"] == actors.num_envs:
                assert processes_of(address)
                break
    sentence = rf"actor 0 ended: environment \d of {actors.envs_per_group} of .*:Hanging-v0 has not returned "
    assert re.search(rf"{sentence}from step for \d+ s; restarting", caplog.text)
    assert "registered_envs.py" in (tmp_path / "run" / "actors" / "actor-0.log").read_text() or vectorization == "async"
    assert not processes_of(address)
