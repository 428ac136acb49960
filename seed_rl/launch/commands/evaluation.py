"""Commands that act with the policy of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from absl import flags

from seed_rl.envs.base import CannotBuild
from seed_rl.files import reason
from seed_rl.launch.cli import UsageError, command
from seed_rl.launch.flags import boolean, comma_separated, integer, number, string
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.object_store import CannotReach, is_url

_POLICY = (
    string("logdir", None, "Log directory of the run."),
    string("checkpoint", None, "One of its checkpoints; default: the newest."),
)
_ACTING = (
    boolean("greedy", False, "Always take the greedy action, without exploring."),
    integer("seed", 1, "Of environments and sampled actions.", lower_bound=0, upper_bound=2**31 - 1),
)


@command(
    "seed_rl eval --logdir=runs/pong --episodes=100 --greedy",
    *_POLICY,
    *_ACTING,
    integer("episodes", 100, "Episodes to play.", lower_bound=1),
    integer("envs", 16, "Environments played at a time.", lower_bound=1),
    string("output", None, "JSON file with every episode; default: evaluation.json in the log directory."),
)
def evaluate(values: flags.FlagValues) -> int:
    """Plays episodes with the policy of a run, and prints the mean return."""
    (path,) = _outputs(values, "evaluation.json")
    with _usable_run():
        from seed_rl.evaluation import episodes

        evaluation = episodes.evaluate_run(
            values.logdir,
            values.checkpoint,
            episodes=values.episodes,
            num_envs=values.envs,
            greedy=values.greedy,
            seed=values.seed,
        )
    print(episodes.text(evaluation))
    with _writing(path):
        episodes.write(evaluation, path)
    print(path)
    return 0


@command(
    "seed_rl play --logdir=runs/pong --output=pong.mp4,pong.gif",
    *_POLICY,
    *_ACTING,
    integer("episodes", 1, "Episodes to film, one after the other.", lower_bound=1),
    comma_separated(
        "output", None, "Files to write, .mp4 or .gif; default: play.mp4 and play.gif in the log directory."
    ),
    number("fps", 15.0, "Agent steps per second.", lower_bound=0.1),
)
def play(values: flags.FlagValues) -> int:
    """Films episodes that are played with the policy of a run."""
    paths = _outputs(values, "play.mp4", "play.gif")
    for path in paths:
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output takes files that end in .mp4 or .gif, got {path}")
    with _usable_run():
        from seed_rl.evaluation.film import film
        from seed_rl.evaluation.policy import experiment_of, load_policy

        policy = load_policy(values.logdir, values.checkpoint, values.greedy, values.seed)
        with contextlib.closing(experiment_of(values.logdir).env.watch()) as env, _writing(", ".join(paths)):
            played = film(policy, env, values.episodes, values.seed, paths, values.fps)
    print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
    print("\n".join(paths))
    return 0


@command(
    "seed_rl export --logdir=runs/pong --output=pong_policy",
    *_POLICY,
    string("output", None, "Directory; default: export in the log directory."),
    integer("batch_size", 1, "Environments in a call.", lower_bound=1),
)
def export(values: flags.FlagValues) -> int:
    """Writes the policy of a run as a SavedModel, to act without seed_rl."""
    (directory,) = _outputs(values, "export")
    with _usable_run():
        from seed_rl.evaluation.export import export
        from seed_rl.evaluation.policy import load_policy

        policy = load_policy(values.logdir, values.checkpoint)
    with _writing(directory):
        export(policy, directory, values.batch_size)
    print(directory)
    return 0


def _outputs(values: flags.FlagValues, *names: str) -> list[str]:
    """The paths of `--output`, else files in the log directory, or here if that is in an object store."""
    if not values.logdir:
        raise UsageError("--logdir is needed: the log directory of a run")
    paths = [values.output] if isinstance(values.output, str) else values.output
    for path in paths or ():
        if is_url(path):
            raise UsageError(f"--output takes paths on this machine, got {path}")
    return paths or [name if is_url(values.logdir) else os.path.join(values.logdir, name) for name in names]


@contextlib.contextmanager
def _usable_run() -> Iterator[None]:
    """Loads TensorFlow; raises `UsageError` for a run that can't be used."""
    load_tensorflow()
    from seed_rl.evaluation.policy import NoPolicy

    try:
        yield
    except (CannotReach, NoPolicy, CannotBuild) as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"--output {path} can't be written: {reason(error)}") from error
