"""Evaluates a run: as a short text, and as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from typing import Any

from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.policy import experiment_of, load_policy
from seed_rl.files import complete_or_absent

_log = logging.getLogger(__name__)


def evaluate_run(
    logdir: str,
    checkpoint: str | None = None,
    *,
    episodes: int = 100,
    num_envs: int = 16,
    greedy: bool = False,
    seed: int = 1,
) -> dict[str, Any]:
    """Plays whole episodes with a run's policy; returns are sums of unclipped rewards. Progress is logged.

    Args:
      logdir: see `load_policy`.
      checkpoint: see `load_policy`.
      episodes: number to play.
      num_envs: environments to play in at a time.
      greedy: without exploration.
      seed: of environments and sampled actions, 0 to 2^31 - 1.

    Returns:
      The arguments `logdir, greedy, seed`, the `checkpoint` and its `env_frames`, `Played.summary`, `human_normalised`
      in percent or None, and `returns` and `lengths` of every episode.

    Raises:
      NoPolicy, CannotReach: see `load_policy`.
      CannotBuild: this machine doesn't have the environments.
    """
    experiment = experiment_of(logdir)
    policy = load_policy(logdir, checkpoint, greedy, seed)

    def log_progress(count: int, episode_return: float) -> None:
        if count * 10 // episodes > (count - 1) * 10 // episodes:  # ten times in all
            _log.info("%d of %d episodes, the last with a return of %g", count, episodes, episode_return)

    with contextlib.closing(experiment.env.make(min(num_envs, episodes))) as env:
        played = play(policy, env, episodes, seed, on_episode=log_progress)
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
    """The most important figures, in a few lines."""
    how = "greedy" if evaluation["greedy"] else "sampled as in training's evaluation"
    error = evaluation["standard_error"]
    lines = [
        f"{evaluation['checkpoint']} ({evaluation['env_frames']:,} frames), {how}, seed {evaluation['seed']}",
        f"episodes  {evaluation['episodes']}, of {evaluation['mean_length']:,.0f} steps on average",
        f"mean      {evaluation['mean']:,.2f}" + ("" if math.isnan(error) else f" +- {error:,.2f} (standard error)"),
        f"median    {evaluation['median']:,.2f}, from {evaluation['min']:,.2f} to {evaluation['max']:,.2f}",
    ]
    if evaluation["human_normalised"] is not None:
        lines.append(f"score     {evaluation['human_normalised']:,.1f} % (0: random, 100: human)")
    return "\n".join(lines)


def write(evaluation: dict[str, Any], path: str) -> None:
    """Writes an evaluation as JSON, in which null stands for numbers that aren't finite.

    Raises:
      OSError: it can't be written.
    """
    finite = json.loads(json.dumps(evaluation), parse_constant=lambda name: None)
    with complete_or_absent(path) as file:
        file.write(json.dumps(finite, indent=2).encode() + b"\n")
