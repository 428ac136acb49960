"""A run whose log directory is in an object store, continued on another machine. The store is `file://`."""

import os

from seed_rl.api import load_policy, read_metrics


def test_a_killed_learner_continues_from_the_store_on_another_machine(runs, wait_for, gone, actors_of, tmp_path):
    bucket = tmp_path / "bucket/run"
    url = f"file://{bucket}"

    def start(machine, *arguments):
        return runs.start(
            "train",
            "--gin_file=catch/vtrace",
            f"--logdir={url}",
            "--gin_param=Logs.metrics_interval_s=0.2",
            "--gin_param=Logs.checkpoint_interval_s=0.3",  # copied as often
            *arguments,
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

    run = start("second", f"--total_frames={reached + 2_000}")
    assert run.wait(120) == 0, run.text()
    continued = next(line for line in run.text().splitlines() if "continuing from" in line)
    assert continued.endswith(f"/{os.path.basename(policy.checkpoint)} at {reached} frames")
    assert str(tmp_path / "second") in continued
    frames = [row["env_frames"] for row in read_metrics(url)]
    assert frames == sorted(frames), "rows after the checkpoint are gone from the store as well"
    assert frames[0] < reached <= frames[-1] - 2_000
    assert load_policy(url).env_frames == frames[-1]
    names = {path.name for path in bucket.iterdir()}
    assert {"config.gin", "config.json", "metrics.jsonl", "learner.log", "actors"} <= names
    assert not {"lock", ".seed_rl"} & names
    assert not [path for path in (tmp_path / "second/seed_rl").iterdir() if path.is_dir()], "the store has it all"
