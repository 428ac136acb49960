"""Commands that use what a run has learned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from absl import flags

from seed_rl.envs.base import CannotBuild
from seed_rl.files import reason
from seed_rl.launch.cli import UsageError
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.object_store import CannotReach, is_url


def evaluate(values: flags.FlagValues) -> int:
    """Plays episodes with a run's policy."""
    (path,) = _outputs(values, "evaluation.json")
    with _usable_run():
        from seed_rl.evaluation import report

        evaluation = report.evaluate_run(
            values.logdir,
            values.checkpoint,
            episodes=values.episodes,
            num_envs=values.envs,
            greedy=values.greedy,
            seed=values.seed,
        )
    print(report.text(evaluation))
    with _output(path):
        report.write(evaluation, path)
    print(path)
    return 0


def play(values: flags.FlagValues) -> int:
    """Films episodes of a run's policy."""
    paths = _outputs(values, "play.mp4", "play.gif")
    for path in paths:
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output takes files that end in .mp4 or .gif, got {path}")
    with _usable_run():
        from seed_rl.evaluation.film import film
        from seed_rl.evaluation.policy import experiment_of, load_policy

        policy = load_policy(values.logdir, values.checkpoint, values.greedy, values.seed)
        with contextlib.closing(experiment_of(values.logdir).env.watch()) as env, _output(", ".join(paths)):
            played = film(policy, env, values.episodes, values.seed, paths, values.fps)
    print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
    print("\n".join(paths))
    return 0


def export(values: flags.FlagValues) -> int:
    """Writes a run's policy as a SavedModel."""
    (directory,) = _outputs(values, "export")
    with _usable_run():
        from seed_rl.evaluation.export import export
        from seed_rl.evaluation.policy import load_policy

        policy = load_policy(values.logdir, values.checkpoint)
    with _output(directory):
        export(policy, directory, values.batch_size)
    print(directory)
    return 0


def _outputs(values: flags.FlagValues, *names: str) -> list[str]:
    """What `--output` says, or else files in the log directory; here, where that is in an object store."""
    if not values.logdir:
        raise UsageError("--logdir is needed: the log directory of a run")
    paths = [values.output] if isinstance(values.output, str) else values.output
    for path in paths or ():
        if is_url(path):
            raise UsageError(f"--output takes paths on this machine, got {path}")
    return paths or [name if is_url(values.logdir) else os.path.join(values.logdir, name) for name in names]


@contextlib.contextmanager
def _usable_run() -> Iterator[None]:
    """Loads TensorFlow for what is done with a run, and says what is wrong with that run."""
    load_tensorflow()
    from seed_rl.evaluation.policy import NoPolicy

    try:
        yield
    except (CannotReach, NoPolicy, CannotBuild) as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def _output(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"--output {path} can't be written: {reason(error)}") from error
