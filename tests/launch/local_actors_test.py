"""Actors that die, as the person who started the run sees it."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import psutil

from seed_rl.launch.local_actors import LocalActors

ROOT = pathlib.Path(__file__).resolve().parents[2]


def failed(address, log_directory, count=1):
    """Actors that were given up."""
    over = threading.Event()
    actors = LocalActors([], count, str(log_directory), on_failure=over.set, max_failures=2)
    try:
        actors.start(address)
        assert over.wait(60)
    finally:
        actors.stop()
    return actors


def test_the_last_words_of_an_actor_are_told_in_one_line_that_names_its_log(tmp_path, caplog):
    caplog.set_level("INFO")
    actors = failed("nowhere", tmp_path)
    log = tmp_path / "actor-0.log"
    sentence = str(actors.failed)
    assert re.fullmatch(rf"actor 0 ended 2 times in a row: .*'nowhere'.* \(its log: {log}\)", sentence)
    assert actors.restarts == 1
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == 1
    assert re.fullmatch(rf"actor 0 ended: .*'nowhere'.*; it starts again in \d\.\d s \(its log: {log}\)", warnings[0])
    assert len(log.read_text().splitlines()) == 2


def test_many_actors_that_end_for_the_same_reason_tell_it_once(tmp_path, caplog):
    caplog.set_level("INFO")
    actors = failed("nowhere", tmp_path, count=3)
    assert len([record for record in caplog.records if "'nowhere'" in record.message]) == 1
    assert "'nowhere'" in str(actors.failed)


def test_an_actor_that_was_killed_is_told_by_its_signal(tmp_path):
    over = threading.Event()
    actors = LocalActors([], 1, str(tmp_path), on_failure=over.set, max_failures=1)
    try:
        actors.start("unix:/nowhere")
        while not actors.pids:
            assert not over.wait(0.01)
        os.kill(actors.pids[0], signal.SIGKILL)
        assert over.wait(60)
    finally:
        actors.stop()
    assert "actor 0 ended 1 times in a row: killed by SIGKILL (its log: " in str(actors.failed)


def test_an_actor_whose_log_cannot_be_opened_is_tried_again_and_then_given_up(tmp_path):
    (tmp_path / "actor-0.log").mkdir()
    assert "actor 0 ended 2 times in a row: it can't be started: Is a directory" in str(failed([], tmp_path).failed)


def test_a_failing_environment_is_told_in_sentences_and_its_log_has_the_traceback(tmp_path):
    gin_file = tmp_path / "failing.gin"
    gin_file.write_text("include 'catch/vtrace.gin'\nimport tests.support.failing_env\nExperiment.env = @Failing()\n")
    run = subprocess.run(
        [sys.executable, "-m", "seed_rl", "train", f"--gin_file={gin_file}", f"--logdir={tmp_path}/run"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    log = tmp_path / "run" / "actors" / "actor-0.log"
    last = run.stderr.splitlines()[-1]
    assert run.returncode == 1, run.stderr
    assert last.startswith("seed_rl train: actor 0 ended 3 times in a row: ")
    assert "an environment of suite 'failing' failed in step: OSError: the game crashed" in last
    assert last.endswith(f"(its log: {log})")
    assert "Traceback" not in run.stderr
    assert "Traceback" in log.read_text()
    assert "failing_env.py" in log.read_text(), "where it failed"
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
