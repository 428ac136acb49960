"""Publishes a policy as a folder that the Hugging Face Hub shows as a model card, and that acts as a log directory."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import os
from typing import Any

import numpy as np

from seed_rl import __version__
from seed_rl.envs.base import CannotBuild
from seed_rl.evaluation import episodes
from seed_rl.evaluation.export import ABOUT, new_directory
from seed_rl.evaluation.film import Limits, film_run
from seed_rl.evaluation.policy import experiment_of, load_policy
from seed_rl.experiment.config_files import save_config
from seed_rl.learner import checkpoints
from seed_rl.learner.checkpoints import WEIGHTS

_log = logging.getLogger(__name__)

DEVIATIONS = 1.96
"""Standard errors on each side of a mean in its 95 % confidence interval."""
_FILM_STEPS, _FILM_BYTES = 400, 1_500_000  # at least, in whole episodes; at most
_CARD = """\
---
library_name: seed_rl
pipeline_tag: reinforcement-learning
tags: [{task}, {agent}, reinforcement-learning, deep-reinforcement-learning]
model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{type: {task}, name: {task}}}
    metrics:
    - {{type: mean_reward, name: mean_reward, value: {mean:.2f} +/- {deviation:.2f}, verified: false}}
---

# {agent} on {task}

| | |
|---|---|
| mean return | {mean:,.2f}, 95 % interval {low:,.2f} to {high:,.2f}, over {episodes} {how} episodes with seed {seed} |
| trained for | {env_frames:,} environment frames, by seed_rl {seed_rl} |
| settings | [config.gin](config.gin), of the environment: {options} |
| weights | model.safetensors, SHA-256 `{sha256}` |

To repeat the evaluation, to train again, or to train on from these weights, in this folder:

```sh
seed_rl eval --logdir=. --episodes={episodes} --seed={seed}{flag}
seed_rl train --gin_file=config.gin --logdir=again
seed_rl train --gin_file=config.gin --logdir=further --init_from=.
```
"""


def export(
    logdir: str,
    directory: str,
    checkpoint: str | None = None,
    num_episodes: int = 100,
    greedy: bool = False,
    seed: int = 1,
    version: str = __version__,
) -> None:
    """Write weights, configuration, score, film and model card of a policy.

    Kernels are stored in float16, all else as it is. Evaluated and filmed is what the folder holds.

    Args:
      logdir: log directory of the run, or folder of a published policy.
      directory: output directory; created atomically, and replaces an earlier export. Its name is the model's.
      checkpoint: checkpoint, as in `load_policy`.
      num_episodes: episodes to evaluate, at least 2.
      greedy: whether the policy acts without exploration; otherwise as in the run's evaluation environments.
      seed: seed of environments and sampled actions.
      version: version of seed_rl that trained the policy.

    Raises:
      NoPolicy, CannotReach, CannotBuild, EnvironmentFailed: see `evaluate_run`.
      OSError: the directory can't be written, or it exists and isn't an export.
    """
    experiment, policy = experiment_of(logdir), load_policy(logdir, checkpoint)
    env = experiment.env
    with new_directory(directory) as new:
        save_config(experiment, new)
        variables = checkpoints.variables_for(policy.agent)
        arrays = {name: _small(name, variable.numpy()) for name, variable in variables.items()}
        checkpoints.write(os.path.join(new, WEIGHTS), arrays, {"counters": {"env_frames": policy.env_frames}})
        with open(os.path.join(new, WEIGHTS), "rb") as file:
            weights = file.read()
        score = episodes.evaluate_run(new, episodes=num_episodes, greedy=greedy, seed=seed)
        _log.info("%s", episodes.text(score))
        wanted, limits = max(1, round(_FILM_STEPS / score.mean_length)), Limits(size=_FILM_BYTES)
        try:
            film_run(new, f"{new}/replay.mp4", episodes=wanted, greedy=greedy, seed=seed, limits=limits)
        except CannotBuild as error:
            _log.warning("there is no film: %s", error)
        margin = DEVIATIONS * score.standard_error
        about: dict[str, Any] = {
            "seed_rl": version,
            "task": str(getattr(env, env.task_setting)) if env.task_setting else env.suite,
            "agent": type(experiment.agent).__name__,
            "sha256": hashlib.sha256(weights).hexdigest(),
            "low": score.mean - margin,
            "high": score.mean + margin,
            **dataclasses.asdict(dataclasses.replace(score, logdir="", checkpoint=WEIGHTS)),
        }
        card = _CARD.format(
            **about,
            name=os.path.basename(os.path.abspath(directory)),
            deviation=score.standard_error * math.sqrt(score.episodes),
            how="greedy" if score.greedy else "sampled",
            flag=" --greedy" if greedy else "",
            options=", ".join(f"`{key} = {value}`" for key, value in env.describe().options.items()),
        )
        for name, text in ((ABOUT, f"{json.dumps(about, indent=1)}\n"), ("README.md", card)):
            with open(os.path.join(new, name), "w", encoding="utf-8") as file:
                file.write(text)


def _small(name: str, array: np.ndarray) -> np.ndarray:
    """Return a kernel as float16 if its values fit, and other arrays, such as statistics of observations, unchanged."""
    half = array.astype(np.float16) if name.endswith("kernel") else array
    return half if np.isfinite(half).all() else array
