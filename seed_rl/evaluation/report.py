"""An evaluation of a run: for people, and as JSON."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.policy import experiment_of, load_policy


def evaluate_run(
    logdir: str, checkpoint: str | None, episodes: int, num_envs: int, greedy: bool, seed: int
) -> dict[str, Any]:
    """Plays episodes with a run's policy.

    Args:
      logdir: of the run.
      checkpoint: path of one of its checkpoints; None: the newest.
      episodes: to play.
      num_envs: played at a time, at the most.
      greedy: without exploration.
      seed: of environments and sampled actions.

    Returns:
      What was played and how (`logdir, checkpoint, env_frames, greedy, seed`), `Played.summary`, `human_normalised` in
      percent or None, and `returns` and `lengths` of every episode.

    Raises:
      NoPolicy: see `load_policy`.
      CannotBuild: this machine doesn't have the environments.
    """
    experiment = experiment_of(logdir)
    policy = load_policy(logdir, checkpoint, greedy, seed)
    with contextlib.closing(experiment.env.make(min(num_envs, episodes))) as env:
        played = play(policy, env, episodes, seed)
    summary = played.summary()
    return {
        "logdir": logdir,
        "checkpoint": policy.checkpoint,
        "env_frames": policy.env_frames,
        "greedy": greedy,
        "seed": seed,
        **summary,
        "human_normalised": experiment.env.human_normalised(summary["mean"]),
        "returns": played.returns.tolist(),
        "lengths": played.lengths.tolist(),
    }


def text(evaluation: dict[str, Any]) -> str:
    """A few lines for people."""
    how = "greedy" if evaluation["greedy"] else "sampled as in training's evaluation"
    lines = [
        f"{evaluation['checkpoint']} ({evaluation['env_frames']:,} frames), {how}, seed {evaluation['seed']}",
        f"episodes  {evaluation['episodes']}, of {evaluation['mean_length']:,.0f} steps on average",
        f"mean      {evaluation['mean']:,.2f}" + _plus_minus(evaluation["standard_error"]),
        f"median    {evaluation['median']:,.2f}, from {evaluation['min']:,.2f} to {evaluation['max']:,.2f}",
    ]
    if evaluation["human_normalised"] is not None:
        lines.append(f"score     {evaluation['human_normalised']:,.1f} % (0: random, 100: human)")
    return "\n".join(lines)


def _plus_minus(error: float) -> str:
    return "" if math.isnan(error) else f" +- {error:,.2f} (standard error)"


def write(evaluation: dict[str, Any], path: str) -> None:
    """As JSON; what isn't a number is null.

    Raises:
      OSError: it can't be written.
    """
    values = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in evaluation.items()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
