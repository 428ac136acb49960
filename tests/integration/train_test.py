"""Whole runs, with real processes."""

import itertools
import os
import signal

import pytest

from seed_rl.experiment import config_files
from seed_rl.runs.run import Run
from tests.integration.devices_test import CATCH


def test_pong_moves(tmp_path):
    settings = ("Actors.envs_per_group = 1", "Inference.max_batch_size = 1", "Experiment.batch_size = 2")
    pong = config_files.load("atari/vtrace_pong", [*settings, "Experiment.total_frames = 480"])
    with Run(pong, tmp_path) as run:
        last = [*run.train()][-1]
    assert last["env_frames"] == 4 * last["agent_steps"] >= 480
    assert last["agent_steps"] == pong.batch_size * pong.agent.unroll_length * last["learner_updates"]
    assert last["discarded_unrolls"] == 0
    assert last["environments"] == pong.actors.num_envs
    names = os.listdir(tmp_path)
    assert {"config.json", "config.gin", "metrics.jsonl", "learner.log", "actors", "checkpoints"} <= set(names)
    assert any("tfevents" in name for name in names)
    assert len(os.listdir(tmp_path / "checkpoints")) == 1


def test_memory_is_learned_with_stored_states_though_an_actor_is_killed_and_a_signal_ends_the_run_without_an_orphan(
    runs, rows, documented, wait_for, actors_of, gone, tmp_path
):
    logdir = str(tmp_path / "memory")
    settings = ("Memory.delay=5", "Actors.groups_per_actor=1", "Logs.metrics_interval_s=0.5")
    flags = ("--num_actors=2", *(f"--gin_param={setting}" for setting in settings), f"--logdir={logdir}")
    run = runs.start("train", "--gin_file=memory/r2d2", *flags)
    # Before the first update, an actor's environments may not have begun an unroll that could be lost.
    wait_for(lambda: any(row["environments"] == 32 and row["learner_updates"] > 3 for row in rows(logdir)), run)

    victim = actors_of(run.pid)[0]
    victim.send_signal(signal.SIGKILL)
    killed_at = len(rows(logdir))
    came_back = wait_for(
        lambda: [r for r in rows(logdir)[killed_at:] if r["discarded_unrolls"] > 0 and r["environments"] == 32], run
    )
    wait_for(lambda: rows(logdir)[-1]["env_frames"] > came_back[0]["env_frames"], run)
    actors = actors_of(run.pid)
    assert victim.pid not in [actor.pid for actor in actors]
    assert len(actors) == 2

    wait_for(lambda: any(row.get("eval/episode_return", 0) >= 0.85 for row in rows(logdir)), run, timeout=240)
    run.process.send_signal(signal.SIGUSR1)  # as from Slurm
    assert run.wait() == 128 + signal.SIGUSR1, run.text()
    assert len(list((tmp_path / "memory/checkpoints").glob("checkpoint-*"))) == 1
    assert gone(actors)
    assert "Traceback" not in run.text()
    last = rows(logdir)[-1]
    assert last["replay/ratio"] == pytest.approx(4.0, rel=0.01)
    assert last["agent_steps"] == last["env_frames"] < 200_000
    assert {"eval/episode_length", "replay/size", "q/abs_td_error", "policy_lag"} <= documented(logdir)


def test_a_killed_learner_resumes_and_its_actors_reconnect(runs, rows, wait_for, tmp_path):
    logdir, address = str(tmp_path / "catch"), f"--server_address=unix:{tmp_path}/learner.sock"
    arguments = ("learner", *CATCH, "--total_frames=1000000000", f"--logdir={logdir}", address)
    arguments += ("--gin_param=Logs.checkpoint_interval_s=0.5",)
    actor = runs.start("actor", address)
    run = runs.start(*arguments)
    wait_for(lambda: len(list((tmp_path / "catch/checkpoints").glob("*"))) >= 2, run)
    run.process.kill()
    run.wait()
    frames_before = rows(logdir)[-1]["env_frames"]

    run = runs.start(*arguments)
    wait_for(lambda: "continuing from" in run.text(), run)
    wait_for(lambda: rows(logdir) and rows(logdir)[-1]["env_frames"] > frames_before + 1000, run)
    assert actor.process.poll() is None, "the same actor process"
    assert all(before["env_frames"] <= after["env_frames"] for before, after in itertools.pairwise(rows(logdir)))
    frames = [row["env_frames"] for row in rows(logdir) if "loss/total" in row]  # others wait for actors
    assert frames == sorted(set(frames)), "the curve continues without repeating itself"
    seconds = [row["seconds"] for row in rows(logdir)]
    assert seconds == sorted(seconds)

    actor.process.terminate()
    assert actor.wait() == 128 + signal.SIGTERM
