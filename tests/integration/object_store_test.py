"""Runs whose log directory is in an object store, from one machine to another. The store is `file://`."""

import os
import sys

from seed_rl.api import load_policy, read_metrics

# The product sends what has changed every 30 s.
SENDS_OFTEN = """
import sys
from seed_rl.launch import working_directory
from seed_rl.__main__ import main
working_directory._PUSH_SECONDS = 0.2
sys.exit(main())
"""
PROGRAM = (sys.executable, "-c", SENDS_OFTEN)


def test_a_learner_that_was_killed_goes_on_from_the_store_on_another_machine(runs, wait_for, gone, actors_of, tmp_path):
    bucket = tmp_path / "bucket/run"
    url = f"file://{bucket}"

    def start(machine, *arguments):
        return runs.start(
            "train",
            "--gin_file=catch/vtrace",
            f"--logdir={url}",
            "--gin_param=Logs.metrics_interval_s=0.2",
            "--gin_param=Logs.checkpoint_interval_s=1",
            *arguments,
            program=PROGRAM,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / machine)},
        )

    run = start("first", "--total_frames=1000000000")
    wait_for(lambda: len(list(bucket.glob("checkpoints/checkpoint-*.npz"))) > 1, run)
    actors = actors_of(run.pid)
    run.process.kill()
    run.wait(10)
    wait_for(lambda: gone(actors))
    assert os.listdir(tmp_path / "first/seed_rl"), "the killed learner's directory is still on its machine"
    policy = load_policy(url)
    reached = policy.env_frames
    assert reached > 0

    run = start("second", f"--total_frames={reached + 5_000}")
    assert run.wait(120) == 0, run.text()
    continued = next(line for line in run.text().splitlines() if "continuing from" in line)
    assert continued.endswith(f"/{os.path.basename(policy.checkpoint)} at {reached} frames")
    assert str(tmp_path / "second") in continued
    frames = [row["env_frames"] for row in read_metrics(url)]
    assert frames == sorted(frames), "rows behind the checkpoint are gone from the store as well"
    assert frames[0] < reached <= frames[-1] - 5_000
    assert load_policy(url).env_frames == frames[-1]
    names = {path.name for path in bucket.iterdir()}
    assert {"config.gin", "config.json", "metrics.jsonl", "learner.log", "actors"} <= names
    assert not {"lock", ".seed_rl"} & names
    assert not [path for path in (tmp_path / "second/seed_rl").iterdir() if path.is_dir()], "the store has it all"
