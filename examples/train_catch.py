"""Trains an agent on Catch from Python, prints its progress, and evaluates its policy.

python examples/train_catch.py runs/catch
"""

import dataclasses
import sys

from seed_rl.api import Logs, Run, evaluate_run, load_experiment


def main(logdir: str = "runs/catch", total_frames: int = 300_000) -> float:
    experiment = load_experiment(["catch/vtrace"])
    experiment = dataclasses.replace(experiment, total_frames=total_frames, logs=Logs(metrics_interval_s=1.0))
    with Run(experiment, logdir) as run:
        for row in run.train():
            print(f"{row['env_frames']:8.0f} frames  return {row.get('episode_return', float('nan')):6.2f}")
    result = evaluate_run(logdir, episodes=100, greedy=True)
    print(f"greedy: {result.mean:.2f} on average over {result.episodes} episodes")
    return result.mean


if __name__ == "__main__":
    main(*sys.argv[1:2])
