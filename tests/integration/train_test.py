"""Whole runs."""

import itertools
import logging
import os
import signal

import pytest

from seed_rl.evaluation.episodes import evaluate_run
from seed_rl.experiment import config_files
from seed_rl.runs.fleet import ELSEWHERE, THREADS
from seed_rl.runs.run import Run
from tests.runs.conftest import BINDINGS


def test_pong_moves(tmp_path):
    settings = ("Actors.envs_per_group = 1", "Inference.max_batch_size = 1", "Experiment.batch_size = 2")
    pong = config_files.load("atari/vtrace_pong", [*settings, "Experiment.total_frames = 480"])
    with Run(pong, tmp_path, actors=THREADS) as run:
        last = [*run.train()][-1]
    assert last["env_frames"] == 4 * last["agent_steps"] >= 480
    assert last["agent_steps"] == pong.batch_size * pong.agent.unroll_length * last["learner_updates"]
    assert last["discarded_unrolls"] == 0
    assert last["environments"] == pong.actors.num_envs
    names = os.listdir(tmp_path)
    assert {"config.json", "config.gin", "metrics.jsonl", "learner.log", "checkpoints"} <= set(names)
    assert any("tfevents" in name for name in names)
    assert len(os.listdir(tmp_path / "checkpoints")) == 1


def test_a_choice_and_a_number_are_learned_with_a_mask_for_the_choice(tmp_path):
    own = ["Gym.id = 'tests.support.registered_envs:Workshop-v0'", "Experiment.total_frames = 10_000"]
    small = ["Actors.envs_per_group = 16", "Inference.max_batch_size = 16", "Experiment.batch_size = 8"]
    vtrace = ["VTrace.hidden = 32", "VTrace.unroll_length = 8", "Optimizer.learning_rate = 5e-3"]
    with Run(config_files.load("gym/any", [*own, *small, *vtrace]), tmp_path, actors=THREADS) as run:
        list(run.train())
    # The right tool in the middle earns 2, a perfect policy 8.
    assert evaluate_run(str(tmp_path), episodes=64, greedy=True).mean > 4


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


def test_a_killed_learner_resumes_and_its_actors_reconnect(runs, rows, wait_for, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    logdir, address = str(tmp_path / "catch"), f"unix:{tmp_path}/learner.sock"
    endless = (*BINDINGS, "Experiment.total_frames = 1_000_000_000", "Logs.checkpoint_interval_s = 0.5")
    flags = ("--gin_file=catch/vtrace", *(f"--gin_param={binding}" for binding in endless), f"--logdir={logdir}")
    actor = runs.start("actor", f"--server_address={address}")
    learner = runs.start("learner", *flags, f"--server_address={address}")
    wait_for(lambda: len(list((tmp_path / "catch/checkpoints").glob("*"))) >= 2, learner)
    learner.process.kill()
    learner.wait()
    frames_before = rows(logdir)[-1]["env_frames"]

    with Run(config_files.load("catch/vtrace", endless), logdir, actors=ELSEWHERE, address=address) as run:
        next(row for row in run.train() if row["env_frames"] > frames_before + 1000)
        actor.process.terminate()  # the same process
        assert actor.wait() == 128 + signal.SIGTERM
    assert "continuing from" in caplog.text
    assert all(before["env_frames"] <= after["env_frames"] for before, after in itertools.pairwise(rows(logdir)))
    frames = [row["env_frames"] for row in rows(logdir) if "loss/total" in row]  # others wait for actors
    assert frames == sorted(set(frames)), "the curve continues without repeating itself"
    seconds = [row["seconds"] for row in rows(logdir)]
    assert seconds == sorted(seconds)
