"""An evaluation of a run: for people, and as JSON."""

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

_TOLD = 10
"""How often the progress of an evaluation is told."""


def evaluate_run(
    logdir: str,
    checkpoint: str | None = None,
    *,
    episodes: int = 100,
    num_envs: int = 16,
    greedy: bool = False,
    seed: int = 1,
) -> dict[str, Any]:
    """Plays episodes with a run's policy. Its returns are those of unclipped rewards, and of whole episodes.

    Args:
      logdir: of the run, as of `load_policy`.
      checkpoint: path of one of its checkpoints; None: the newest that can be read.
      episodes: to play.
      num_envs: played at a time, at the most.
      greedy: without exploration.
      seed: of environments and sampled actions, 0 to 2^31 - 1.

    Returns:
      What was played and how (`logdir, checkpoint, env_frames, greedy, seed`), `Played.summary`, `human_normalised` in
      percent or None, and `returns` and `lengths` of every episode.

    Raises:
      NoPolicy, CannotReach: see `load_policy`.
      CannotBuild: this machine doesn't have the environments.
    """
    experiment = experiment_of(logdir)
    policy = load_policy(logdir, checkpoint, greedy, seed)
    with contextlib.closing(experiment.env.make(min(num_envs, episodes))) as env:

        def tell(count: int, episode_return: float) -> None:
            if count * _TOLD // episodes > (count - 1) * _TOLD // episodes:
                _log.info("%d of %d episodes, the last with a return of %g", count, episodes, episode_return)

        played = play(policy, env, episodes, seed, on_episode=tell)
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
    """As JSON; what isn't a finite number is null.

    Raises:
      OSError: it can't be written.
    """
    with complete_or_absent(path) as file:
        file.write(json.dumps(_finite(evaluation), indent=2, allow_nan=False).encode() + b"\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
