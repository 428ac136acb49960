"""Commands and runs that write into an object store."""

import dataclasses
import logging
import re

import pytest

from seed_rl.api import THREADS, ConfigError, Run, load_policy, open_run, read_metrics
from seed_rl.cli import doctor
from seed_rl.cli.main import main
from tests.extras.stores import emulators


def test_a_store_is_checked_by_doctor_and_a_mistyped_one_ends_a_command_in_a_sentence(capsys):
    good, url = emulators.directory("s3", "/run"), "s3://mistyped/run"
    assert doctor.log_directory(good) == (doctor.OK, f"{good} is readable and writable and empty")
    assert doctor.log_directory(url)[0] == doctor.BROKEN
    assert main(["train", "--gin_file=catch/vtrace", f"--logdir={url}"]) == 2
    assert f"{url} can't be written: there is no bucket mistyped" in capsys.readouterr().err


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
    with Run(endless, url, actors=THREADS) as run:
        rows = run.train()  # held, not left: the run ends it
        assert any(row["env_frames"] > left_at for row in rows)
    assert next(rows, None) is None
    assert re.search(rf"continuing from {tmp_path}/second/.*/checkpoint-\d+.npz at {left_at} frames", caplog.text)
    assert load_policy(url).env_frames > left_at
    with open_run(url, "") as copy:
        frames = [row["env_frames"] for row in read_metrics(copy)]
    assert frames == sorted(frames)
    names = {path.name for path in bucket.iterdir()}
    assert names >= {"config.gin", "config.json", "metrics.jsonl", "learner.log", "actors"}
    assert "lock" not in names
    with pytest.raises(ConfigError, match=f"^{url} holds a run with another configuration: seed was 1 and is now 99"):
        Run(dataclasses.replace(endless, seed=99), url).__enter__()
