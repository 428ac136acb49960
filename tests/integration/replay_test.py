"""Whole runs of the agent that learns from a replay, in real processes."""

import signal

import pytest


def test_the_memory_task_is_learned_with_stored_states_and_burn_in(runs, rows, documented, wait_for, tmp_path):
    logdir = str(tmp_path / "memory")
    run = runs.start("train", "--gin_file=memory/r2d2", f"--logdir={logdir}", "--gin_param=Logs.metrics_interval_s=0.5")
    wait_for(lambda: any(row.get("eval/episode_return", 0) >= 0.85 for row in rows(logdir)), run, timeout=240)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(30) == 128 + signal.SIGINT, run.text()
    last = rows(logdir)[-1]
    assert last["replay/ratio"] == pytest.approx(4.0, rel=0.01)
    assert last["agent_steps"] == last["env_frames"] < 200_000
    assert {"eval/episode_length", "replay/size", "q/abs_td_error", "policy_lag"} <= documented(logdir)
