"""Commands and runs that write into an object store."""

import dataclasses
import logging
import re

from seed_rl.api import THREADS, Run, load_policy


def test_a_run_in_an_object_store_whose_loop_was_left_continues_on_another_machine(
    small_catch, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    bucket, endless = tmp_path / "bucket", dataclasses.replace(small_catch, total_frames=10**9)
    url = f"file://{bucket}"
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/first")
    with Run(endless, url) as run:
        for row in run.train():
            if row["env_frames"] >= 400:
                break
    left_at = load_policy(url).env_frames
    assert left_at >= row["env_frames"]
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/second")
    with Run(dataclasses.replace(small_catch, total_frames=left_at), url, actors=THREADS) as run:
        assert list(run.train()) == []
    assert re.search(rf"continuing from {tmp_path}/second/.*/checkpoint-\d+.npz at {left_at} frames", caplog.text)
    names = {path.name for path in bucket.iterdir()}
    assert names >= {"config.gin", "config.json", "metrics.jsonl", "learner.log", "actors"}
    assert "lock" not in names
