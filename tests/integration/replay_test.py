"""Whole runs of the agent that learns from a replay, in real processes."""

import glob
import re
import signal

import pytest

OFTEN = ("--gin_param=Logs.metrics_interval_s=0.2", "--gin_param=Logs.checkpoint_interval_s=0.5")


def test_the_memory_task_is_learned_with_stored_states_and_burn_in(runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "memory")
    run = runs.start("train", "--gin_file=memory/r2d2", f"--logdir={logdir}")
    wait_for(lambda: any(row.get("eval/episode_return", 0) >= 0.95 for row in rows(logdir)), run, timeout=240)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(30) == 128 + signal.SIGINT, run.text()
    last = rows(logdir)[-1]
    assert last["replay/ratio"] == pytest.approx(4.0, rel=0.01)
    assert last["agent_steps"] == last["env_frames"] < 200_000
    assert {"eval/episode_length", "replay/size", "q/abs_td_error", "policy_lag", "gradient_norm"} <= set(last)


def test_a_killed_run_continues_with_its_replay(runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "catch")
    arguments = (
        "train",
        "--gin_file=catch/r2d2",
        "--gin_param=Replay.snapshot=True",
        "--gin_param=Replay.min_size=500",
        f"--logdir={logdir}",
        "--total_frames=1000000000",
        *OFTEN,
    )

    def trained():
        return [row for row in rows(logdir) if row.get("learner_updates", 0) >= 30]

    def checkpoints():
        return sorted(glob.glob(f"{logdir}/checkpoints/checkpoint-*.npz"))

    run = runs.start(*arguments)
    wait_for(trained, run)
    seen = len(checkpoints())
    wait_for(lambda: len(checkpoints()) > seen or len(checkpoints()) == 5, run)
    run.process.kill()
    run.wait()
    # The snapshot of the newest complete checkpoint; a newer one may have been cut off.
    kept = glob.glob(f"{logdir}/checkpoints/replay-*.npz")
    assert kept
    before = rows(logdir)[-1]["learner_updates"]

    run = runs.start(*arguments)
    wait_for(lambda: "continuing from" in run.text(), run)
    resumed_from = int(re.search(r"continuing from .*checkpoint-(\d+)\.npz", run.text())[1])
    wait_for(lambda: rows(logdir) and rows(logdir)[-1]["learner_updates"] > before + 30, run)
    smallest = min(row["replay/size"] for row in rows(logdir) if row["learner_updates"] >= resumed_from)
    assert smallest >= 500, "it continues with its data"
    updates = [row["learner_updates"] for row in rows(logdir)]
    assert updates == sorted(updates)
