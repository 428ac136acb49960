"""Publishes a policy as a folder that the Hugging Face Hub shows as a model card, and that acts as a log directory."""

import contextlib
import dataclasses
import hashlib
import io
import json
import logging
import os
import pathlib
import re
import statistics
import sys
from importlib import resources
from typing import Any

import numpy as np
import safetensors.numpy

from seed_rl import __version__
from seed_rl.cli.flags import quoted
from seed_rl.cli.main import carry_out, commands
from seed_rl.errors import Failure, UsageError
from seed_rl.evaluation import episodes
from seed_rl.evaluation.policy import NoPolicy, experiment_of, load_policy
from seed_rl.experiment.config_files import save_config
from seed_rl.extras.sharing.export import new_directory
from seed_rl.extras.sharing.published import ABOUT, STATE, WEIGHTS
from seed_rl.foreign import printable
from seed_rl.settings import without_places
from seed_rl.weights import checkpoints

_log = logging.getLogger(__name__)

DEVIATIONS = 1.96  # standard errors on each side of a mean in its 95 % interval
_MOST_LETTERS = 200  # of a setting on the card
MARKUP = r"\\`*<>|&\[\]"  # characters with a meaning in Markdown, for a regular expression
FILM_STEPS, _FILM_MB = 400, 1.5  # at least, in whole episodes; at most
_CARD = resources.files(__package__).joinpath("card.md").read_text(encoding="utf-8")


def export(logdir: str, directory: str, checkpoint: str | None = None, version: str = __version__, **how: Any) -> None:
    """Write weights, configuration, score, film and model card of a policy; kernels are stored in float16.

    The directory, named as the model, appears once it is complete, and replaces an earlier export. The score is that of
    `evaluate_run`, given `how`: `episodes`, raised to those of two games, `greedy` and `seed`; `version` is that of
    seed_rl which trained the policy. Raises a NoPolicy if that is published already; see also `evaluate_run`.
    """
    if os.path.isfile(os.path.join(logdir, ABOUT)):
        raise NoPolicy(f"{logdir} is published already: copy the folder")
    experiment, policy = experiment_of(logdir), load_policy(logdir, checkpoint)
    published = without_places(experiment)
    env, options = published.eval_env, published.eval_env.describe().options
    with new_directory(directory) as new:
        save_config(experiment, new)  # with the places that the environments need here
        variables = checkpoints.variables_for(policy.agent)
        arrays = {name: np.asarray(_small(name, variable.numpy())) for name, variable in variables.items()}
        state = json.dumps({"counters": {"env_frames": policy.env_frames}})
        weights = safetensors.numpy.save(arrays, {STATE: state})
        pathlib.Path(new, WEIGHTS).write_bytes(weights)
        digest = hashlib.sha256(weights).hexdigest()
        how["episodes"] = max(how.get("episodes", 100), 2 * env.players)  # a standard error needs two games
        score = episodes.evaluate_run(new, **how)
        _film(new, score)
        save_config(published, new)
        place = published.eval_env.describe()
        about: dict[str, Any] = {
            "seed_rl": version,
            "task": str(getattr(env, env.task_setting)) if env.task_setting else env.suite,
            "agent": type(experiment.agent).__name__,
            "sha256": digest,
            "low": max(min(score.returns), score.mean - DEVIATIONS * score.standard_error),
            "high": min(max(score.returns), score.mean + DEVIATIONS * score.standard_error),
            **dataclasses.asdict(dataclasses.replace(score, logdir="", checkpoint=WEIGHTS, environment=place)),
        }
        card = _CARD.format(
            **about,
            title=plain(about["task"], MARKUP),
            quoted_task=json.dumps(about["task"]),
            quoted_name=json.dumps(os.path.basename(os.path.abspath(directory))),
            deviation=statistics.stdev(score.returns),
            how="greedy" if score.greedy else "evaluation",
            flag=" --greedy" if score.greedy else "",
            options=", ".join(f"`{plain(f'{key} = {value}'.replace('`', ''), '|')}`" for key, value in options.items()),
        )
        pathlib.Path(new, ABOUT).write_text(f"{json.dumps(about, indent=1)}\n", encoding="utf-8")
        pathlib.Path(new, "README.md").write_text(card, encoding="utf-8")


def _film(directory: str, score: episodes.Evaluation) -> None:
    """Film the policy in a directory by the command that does it, if there is one."""
    if (play := commands().get("play")) is None:
        return
    wanted = max(1, round(FILM_STEPS / score.mean_length))
    flags = [f"--logdir={directory}", f"--output={quoted([f'{directory}/replay.mp4'])}", f"--episodes={wanted}"]
    flags += [f"--greedy={score.greedy}", f"--seed={score.seed}", f"--max_mb={_FILM_MB}"]
    with contextlib.redirect_stdout(io.StringIO()):
        code = carry_out("play", play.load(), flags)
    if code in (Failure.exit_code, UsageError.exit_code):
        _log.warning("there is no film")
    elif code:
        sys.exit(code)


def plain(text: str, special: str) -> str:
    """Return a text of the settings for the card, on one line and with its special characters escaped."""
    return re.sub(f"([{special}])", r"\\\1", " ".join(printable(text).split())[:_MOST_LETTERS])


def _small(name: str, array: np.ndarray) -> np.ndarray:
    """Return a kernel as float16 if its values fit; statistics of observations, for example, need all digits."""
    half = array.astype(np.float16) if name.endswith("kernel") else array
    return half if np.isfinite(half).all() else array
