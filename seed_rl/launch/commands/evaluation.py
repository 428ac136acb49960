"""Commands that use what a run has learned."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from absl import flags

from seed_rl.envs.errors import CannotBuild
from seed_rl.launch.cli import UsageError
from seed_rl.launch.native_output import import_quietly


def evaluate(values: flags.FlagValues) -> int:
    """Plays episodes with a run's policy."""
    path = values.output or os.path.join(_logdir(values), "evaluation.json")
    with _failing_in_a_sentence(path):
        from seed_rl.evaluation import report

        evaluation = report.evaluate_run(
            values.logdir, values.checkpoint, values.episodes, values.envs, values.greedy, values.seed
        )
        report.write(evaluation, path)
    print(report.text(evaluation))
    print(path)
    return 0


def play(values: flags.FlagValues) -> int:
    """Films episodes of a run's policy."""
    paths = values.output or [os.path.join(_logdir(values), f"play.{ending}") for ending in ("mp4", "gif")]
    for path in paths:
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output takes files that end in .mp4 or .gif, got {path}")
    with _failing_in_a_sentence(", ".join(paths)):
        from seed_rl.evaluation.film import film
        from seed_rl.evaluation.policy import experiment_of, load_policy

        policy = load_policy(_logdir(values), values.checkpoint, values.greedy, values.seed)
        with contextlib.closing(experiment_of(values.logdir).env.watch()) as env:
            played = film(policy, env, values.episodes, values.seed, paths, values.fps)
    print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
    print("\n".join(paths))
    return 0


def export(values: flags.FlagValues) -> int:
    """Writes a run's policy as a SavedModel."""
    directory = values.output or os.path.join(_logdir(values), "export")
    with _failing_in_a_sentence(directory):
        from seed_rl.evaluation import export
        from seed_rl.evaluation.policy import load_policy

        policy = load_policy(_logdir(values), values.checkpoint, values.greedy, values.seed)
        export.export(policy, directory, values.batch_size)
    print(directory)
    return 0


def _logdir(values: flags.FlagValues) -> str:
    if not values.logdir:
        raise UsageError("--logdir is needed: the log directory of a run")
    return values.logdir


@contextlib.contextmanager
def _failing_in_a_sentence(output: str) -> Iterator[None]:
    """Loads TensorFlow for what is done inside, and says what is wrong with the run or with the output."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import_quietly("tensorflow")
    for library in ("absl", "tensorflow"):  # tell of every file that they write
        logging.getLogger(library).setLevel(logging.WARNING)
    from seed_rl.evaluation.policy import NoPolicy

    try:
        yield
    except (NoPolicy, CannotBuild) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--output {output} can't be written: {error.strerror or error}") from error
