"""A run that writes into an object store."""

import dataclasses

from seed_rl.api import THREADS, Run, load_policy


def test_a_run_whose_loop_was_left_has_its_last_checkpoint_in_the_store(small_catch, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    url = f"file://{tmp_path}/bucket"
    with Run(dataclasses.replace(small_catch, total_frames=10**9), url, actors=THREADS) as run:
        row = next(iter(run.train()))
    assert load_policy(url).env_frames >= row["env_frames"]
    names = {path.name for path in (tmp_path / "bucket").iterdir()}
    assert names >= {"config.gin", "config.json", "metrics.jsonl", "learner.log"}
    assert "lock" not in names
