"""Plays complete episodes with a policy, and reports evaluations of runs as text and JSON."""

import contextlib
import dataclasses
import json
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from seed_rl.envs.elsewhere import make_elsewhere
from seed_rl.envs.vector.steps import outputs
from seed_rl.evaluation.policy import Policy, env_of, experiment_of, load_policy
from seed_rl.evaluation.statistics import interquartile_mean
from seed_rl.inference.episodes import EpisodeTracker
from seed_rl.specs import EnvDescription
from seed_rl.system.files import StrPath, complete_or_absent
from seed_rl.system.signals import Stop
from seed_rl.types import EnvOutput
from seed_rl.weights.policy_sources import opening

_log = logging.getLogger(__name__)
_LOG_SECONDS = 5.0


class Played(NamedTuple):
    """Returns and lengths of n episodes, in the order in which they ended."""

    returns: np.ndarray
    """Sums of unclipped rewards, float64 [n]."""
    lengths: np.ndarray
    """Lengths in agent steps, without action repeats, int64 [n]."""

    def summary(self, players: int = 1) -> dict[str, Any]:
        """Compute the statistics of an `Evaluation`; the `players` of a game end together and are not independent."""
        count = len(self.returns)
        returns, lengths = (self.returns, self.lengths) if count else (np.full(1, math.nan),) * 2
        games = returns.reshape(-1, players if count else 1).mean(axis=1)
        return {
            "episodes": count,
            "mean": float(returns.mean()),
            "standard_error": float(np.std(games, ddof=1)) / math.sqrt(len(games)) if len(games) > 1 else math.nan,
            "median": float(np.median(returns)),
            "min": float(returns.min()),
            "max": float(returns.max()),
            "mean_length": float(lengths.mean()),
        }


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate_run`. Without episodes, statistics are nan. Lengths are in agent steps."""

    logdir: str
    environment: EnvDescription
    gin_params: list[str]
    checkpoint: str
    env_frames: int
    greedy: bool
    seed: int
    wanted_episodes: int
    episodes: int
    """Episodes played, fewer than `wanted_episodes` if stopped early."""
    mean: float
    standard_error: float
    """Standard error of the mean over games; nan for one game."""
    median: float
    min: float
    max: float
    mean_length: float
    human_normalised: float | None
    """Percent, where 0 is a random policy and 100 a human; None without references."""
    returns: list[float]
    lengths: list[int]


def play(
    policy: Policy,
    env: gymnasium.vector.VectorEnv,
    episodes: int,
    seed: int,
    on_output: Callable[[EnvOutput], None] = lambda output: None,
    stop: Stop | None = None,
    max_steps: int | None = None,
) -> Played:
    """Play episodes in B parallel environments that reset themselves, logging progress every few seconds.

    Which episodes count is fixed in advance: the first floor(episodes / B) of each environment, plus one in some of
    them. Counting whichever episodes end first would favour short ones. Environments that finish their share early
    continue to play, uncounted.

    Args:
      episodes: number of episodes, at least 1.
      on_output: called with each output, from before the first action to after the last.
      stop: says whether to stop early; polled after every step.
      max_steps: length at which an episode is cut off and counted; the next one then starts from the same state.
    """
    num_envs = env.num_envs
    left = np.full(num_envs, episodes // num_envs)
    left[: episodes % num_envs] += 1
    policy.reset(num_envs)
    rows, restarted, tracker = np.arange(num_envs), np.ones(num_envs, bool), EpisodeTracker(num_envs, max_steps)
    counted: list[tuple[float, int]] = []
    began = logged = time.monotonic()
    for output in outputs(env, policy.act, seed):
        on_output(output)
        tracker.step(rows, restarted, output.reward, output.done, output.last)
        restarted = np.zeros(num_envs, bool)
        for index, total, length in (one for ended in tracker.take() for one in zip(*ended, strict=True)):
            if left[index]:
                left[index] -= 1
                counted.append((total, length))
        if (now := time.monotonic()) - logged > _LOG_SECONDS:
            logged = now
            remaining = f"the longest at {tracker.longest:,} steps"
            if counted:
                remaining = f"about {(now - began) * (episodes / len(counted) - 1):,.0f} s left"
            _log.info("%d of %d episodes, %s", len(counted), episodes, remaining)
        if not left.any() or (stop is not None and stop.is_set()):
            break
    returns, lengths = np.array(counted, float).reshape(-1, 2).T
    return Played(returns, lengths.astype(np.int64))


def evaluate_run(
    logdir: StrPath,
    checkpoint: StrPath | None = None,
    *,
    episodes: int = 100,
    num_envs: int = 16,
    greedy: bool = False,
    seed: int = 1,
    stop: Stop | None = None,
    max_steps: int | None = None,
    gin_params: Sequence[str] = (),
) -> Evaluation:
    """Play complete episodes with a run's policy; returns are sums of unclipped rewards.

    Args:
      logdir, checkpoint, greedy: as in `load_policy`.
      episodes, num_envs: number of episodes, and of parallel environments; in a game, those of all players, rounded up
        to whole games.
      seed: seed of environments and sampled actions, 0 to 2^31 - 1.
      stop, max_steps: as in `play`; stopping early biases the results towards short episodes.
      gin_params: gin bindings that change the environments, such as `Atari.sticky_actions = 0.25`.

    Raises:
      ValueError: `episodes` or `num_envs` is less than 1.
      NoPolicy, CheckpointError, ConfigError, CannotBuild: as `load_policy`; or a binding is invalid, or changes what
        the policy acts in.
      EnvironmentFailed: an environment raised an error.
    """
    for name, value in (("episodes", episodes), ("num_envs", num_envs)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    place, checkpoint = os.fspath(logdir), None if checkpoint is None else os.fspath(checkpoint)
    with opening(place, checkpoint) as found:
        experiment = experiment_of(found)
        env_config, own = env_of(experiment, gin_params), experiment.actors.eval_options
        policy = load_policy(found, checkpoint, greedy, seed)
    options = [f"Actors.eval_options = {own}"] if own != "{}" else []
    players = env_config.players
    episodes = -(-episodes // players) * players
    with contextlib.closing(make_elsewhere(env_config, -(-min(num_envs, episodes) // players) * players)) as env:
        played = play(policy, env, episodes, seed, stop=stop, max_steps=max_steps)
    summary = played.summary(players)
    return Evaluation(
        logdir=place,
        environment=env_config.describe(),
        gin_params=[*options, *gin_params],
        checkpoint=policy.checkpoint.replace(found, place, 1),
        env_frames=policy.env_frames,
        greedy=policy.greedy,
        seed=seed,
        wanted_episodes=episodes,
        **summary,
        human_normalised=env_config.human_normalised(summary["mean"]),
        returns=played.returns.tolist(),
        lengths=played.lengths.tolist(),
    )


def text(evaluation: Evaluation) -> str:
    """Format the main results in a few lines."""
    how = "greedy" if evaluation.greedy else "sampled as in evaluation during training"
    where = "".join(f", {binding}" for binding in evaluation.gin_params)
    error, wanted = evaluation.standard_error, evaluation.wanted_episodes
    partial = "" if evaluation.episodes == wanted else f" of {wanted} (interrupted, which favours short episodes)"
    lines = [
        f"{evaluation.checkpoint} ({evaluation.env_frames:,} frames), {how}, seed {evaluation.seed}{where}",
        f"episodes  {evaluation.episodes}{partial}, of {evaluation.mean_length:,.0f} steps on average",
        f"mean      {evaluation.mean:,.2f}" + ("" if math.isnan(error) else f" +- {error:,.2f} (standard error)"),
        f"median    {evaluation.median:,.2f}, from {evaluation.min:,.2f} to {evaluation.max:,.2f}",
    ]
    if evaluation.human_normalised is not None:
        lines.append(f"score     {evaluation.human_normalised:,.1f} % (0: random, 100: human)")
    return "\n".join(lines)


def text_over_runs(evaluations: Sequence[Evaluation]) -> str:
    """Format the interquartile mean over runs and its 95 % interval, of normalised scores or else of mean returns."""
    is_normalised = all(each.human_normalised is not None for each in evaluations)
    key, name, unit = ("human_normalised", "score", " %") if is_normalised else ("mean", "mean return", "")
    tasks: dict[str, list[float]] = {}
    for each in evaluations:
        tasks.setdefault(str(each.environment), []).append(getattr(each, key))
    environments = "1 environment" if len(tasks) == 1 else f"{len(tasks)} environments"
    runs = f"{len(evaluations)} runs in {environments}"
    if len(tasks) > 1 and not is_normalised:
        return f"{runs}: no common score, because some environments have no human reference score"
    value, low, high = interquartile_mean([np.array(own) for own in tasks.values()])
    interval = "" if math.isnan(low) else f", 95 % interval {low:,.2f} to {high:,.2f}"
    return f"{runs}: interquartile mean of the {name} {value:,.2f}{unit}{interval}"


def write(evaluation: Evaluation, path: str) -> None:
    """Write an evaluation as JSON, with null for numbers that aren't finite; raises OSError."""
    finite = json.loads(json.dumps(dataclasses.asdict(evaluation)), parse_constant=lambda name: None)
    with complete_or_absent(path) as file:
        file.write(json.dumps(finite, indent=2).encode() + b"\n")
