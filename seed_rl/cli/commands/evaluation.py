"""Commands that act with a run's policy."""

import contextlib
import dataclasses
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from seed_rl.cli import flags
from seed_rl.cli.command import Failure, UsageError, check_outputs, command
from seed_rl.experiment import pretrained as policies
from seed_rl.reporting.text import counted
from seed_rl.studies.bundle import opened
from seed_rl.system.files import explained
from seed_rl.system.native_output import load_tensorflow
from seed_rl.system.object_store import is_url
from seed_rl.system.signals import Stop, signals, stop_at_end_of_input
from seed_rl.weights import checkpoints

_POLICY = (
    flags.string("logdir", None, "Log directory of the run, or its bundle."),
    flags.string("pretrained", None, "Name of a pretrained policy, instead of a run; see `seed_rl pretrained`."),
    flags.string(
        "checkpoint", None, "best, newest, a number of learner updates, or a file of the run; default: the newest."
    ),
    flags.IMPORT_MODULE,
)
_HERE = "in the log directory, or the working directory for a bundle, bucket or pretrained policy"
_CHOOSING = (
    flags.boolean("greedy", False, "Always take the greedy action."),
    flags.integer("seed", 1, "Seed of environments and sampled actions.", lower_bound=0, upper_bound=2**31 - 1),
)
_ACTING = (
    *_CHOOSING,
    flags.integer("max_steps", None, "Cut episodes off after this many agent steps.", lower_bound=1),
    flags.repeated(
        "gin_param", [], "Gin binding that changes the environments, e.g. Atari.sticky_actions=0.25. May be repeated."
    ),
)


def _acting(values: flags.FlagValues) -> dict[str, Any]:
    """Return the flags of `_ACTING`, and the checkpoint, as keyword arguments."""
    given = {name: values[name].value for name in ("checkpoint", "greedy", "seed", "max_steps")}
    return {**given, "gin_params": values.gin_param}


@command(
    "seed_rl eval --logdir=runs/pong --episodes=100 --greedy",
    *_POLICY,
    *_ACTING,
    flags.integer("episodes", 100, "Episodes to play, rounded up to whole games.", lower_bound=1),
    flags.integer("envs", 16, "Environments played in parallel.", lower_bound=1),
    flags.string("output", None, f"JSON file with every episode; default: evaluation.json {_HERE}."),
    flags.OVERWRITE,
    flags.number("at_least", None, "Exit code 1 if the mean return of a run is below this."),
    arguments="log directories, bundles or URLs of several runs, instead of --logdir.",
)
def evaluate(values: flags.FlagValues, *places: str) -> int:
    """Plays episodes with the policies of runs and prints their mean returns."""
    if places and (values.logdir or values.pretrained or values.checkpoint not in (None, "best")):
        raise UsageError("give either log directories, possibly with --checkpoint=best, or --logdir and --checkpoint")
    if len(places) > 1 and values.output:
        raise UsageError("--output is for a single run; several runs write evaluation.json into their log directories")
    evaluations, names = [], list[str]()
    with signals() as stopped:
        for place in places or [values.logdir]:
            if not stopped.is_set():
                name = "evaluation.json"
                if len(places) > 1 and not os.path.isdir(place):
                    stem = re.sub("[/:]+", "-", place.removesuffix(".tar")).strip("-.")
                    names.append(stem)
                    again = f"-{number}" if (number := names.count(stem)) > 1 else ""
                    name = f"{stem}{again}.{name}"
                evaluations.append(_evaluated(values, place, name, stopped))
    if len(evaluations) > 1 and not stopped.is_set():
        from seed_rl.evaluation import episodes

        print(episodes.text_over_runs(evaluations))
    if values.at_least is not None and not stopped.is_set():
        worst = min(evaluations, key=lambda evaluation: evaluation.mean)
        if not worst.mean >= values.at_least:
            name, mean = worst.logdir, worst.mean
            raise Failure(f"the mean return of {name} is {mean:g}, below --at_least={values.at_least:g}")
    return stopped.exit_code


def _evaluated(values: flags.FlagValues, place: str | None, name: str, stop: Stop) -> Any:
    """Evaluate a run; print the result, and write it unless the evaluation was interrupted."""
    with _usable_run(values, place, name) as (logdir, (path,)):
        from seed_rl.evaluation import episodes

        how = _acting(values)
        evaluation = episodes.evaluate_run(logdir, **how, episodes=values.episodes, num_envs=values.envs, stop=stop)
        if place not in (None, logdir):  # a bundle, unpacked into a directory that others don't find
            checkpoint = os.path.basename(evaluation.checkpoint)
            evaluation = dataclasses.replace(evaluation, logdir=str(place), checkpoint=checkpoint)
        print(episodes.text(evaluation) if evaluation.episodes else "interrupted before an episode ended")
        if evaluation.episodes == evaluation.wanted_episodes:
            with explained(UsageError, f"--output {path} can't be written"):
                episodes.write(evaluation, path)
            print(path)
    return evaluation


@command(
    "seed_rl play --logdir=runs/pong --output=pong.mp4,pong.gif",
    *_POLICY,
    *_ACTING,
    flags.integer("episodes", 1, "Number of consecutive episodes to film.", lower_bound=1),
    flags.comma_separated("output", None, f"Files to write, .mp4 or .gif; default: play.mp4 and play.gif {_HERE}."),
    flags.OVERWRITE,
    flags.number("fps", 15.0, "Agent steps per second.", lower_bound=0.1),
    flags.EXIT_WITH_PARENT,
)
def play(values: flags.FlagValues) -> int:
    """Films episodes played by a run's policy."""
    for path in values.output or ():
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output files must end in .mp4 or .gif, got {path}")
    with signals() as stopped, _usable_run(values, values.logdir, "play.mp4", "play.gif") as (logdir, paths):
        stopped.raises = True
        if values.exit_with_parent:
            stop_at_end_of_input(stopped)
        from seed_rl.evaluation.film import Limits, film_run

        with explained(UsageError, f"--output {', '.join(paths)} can't be written"):
            limits = Limits() if values.exit_with_parent else None
            how = _acting(values)
            played = film_run(logdir, *paths, **how, episodes=values.episodes, fps=values.fps, limits=limits)
        print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
        print("\n".join(paths))
    if stopped.raised:
        print("seed_rl: interrupted", file=sys.stderr)
    return stopped.exit_code


@command(
    "seed_rl export --logdir=runs/pong --output=pong_policy",
    *_POLICY,
    flags.string("output", None, f"Directory, of ONNX a file; default: policy.onnx or export {_HERE}."),
    flags.OVERWRITE,
    flags.choice(
        "format",
        "saved_model",
        ["saved_model", "onnx", "hub"],
        "For programs without seed_rl, or the Hub.",
    ),
    flags.integer("batch_size", 1, "Environments per call of a SavedModel or ONNX model.", lower_bound=1),
    flags.group(
        "for the Hub", *_CHOOSING, flags.integer("episodes", 100, "Episodes to play for the score.", lower_bound=2)
    ),
)
def export(values: flags.FlagValues) -> int:
    """Writes a policy as a SavedModel or ONNX model, or for the Hugging Face Hub."""
    others = ("batch_size",) if values.format == "hub" else ("greedy", "seed", "episodes")
    if given := [flag for flag in others if values[flag].present]:
        raise UsageError(f"--{given[0]} has no effect on --format={values.format}")
    onnx = values.format == "onnx"
    if onnx and importlib.util.find_spec("tf2onnx") is None:
        raise UsageError("--format=onnx needs tf2onnx: pip install tf2onnx")
    name = "policy.onnx" if onnx else "export"
    with _usable_run(values, values.logdir, name, directories=not onnx) as (logdir, (directory,)):
        with explained(UsageError, f"--output {directory} can't be written"):
            if values.format == "hub":
                from seed_rl.studies import hub

                how = {"episodes": values.episodes, "greedy": values.greedy, "seed": values.seed}
                hub.export(logdir, directory, values.checkpoint, **how)
            else:
                from seed_rl.evaluation.export import export, export_onnx
                from seed_rl.evaluation.policy import load_policy

                policy = load_policy(logdir, values.checkpoint, float32=True)
                (export_onnx if onnx else export)(policy, directory, values.batch_size)
        print(directory)
        if values.format == "hub":
            print(f"to publish it under a name of your account: hf upload ACCOUNT/NAME {directory}")
    return 0


@command("seed_rl pretrained")
def pretrained(values: flags.FlagValues) -> int:
    """Lists the pretrained policies: task, agent, mean return, 95 % interval, size."""
    for name in policies.names():
        about = policies.about(name)
        score = f"{about['mean']:>10,.2f} ({about['low']:,.2f} to {about['high']:,.2f})"
        print(f"{name:16} {about['task']:24} {about['agent']:6} {score:36} {about['bytes'] / 1e6:4.2f} MB")
    return 0


@command(
    "seed_rl serve runs/pong --server_address=localhost:8686",
    *_POLICY,
    *_CHOOSING,
    flags.string("server_address", flags.DEFAULT_TCP_ADDRESS, "host:port or unix:/path for clients."),
    flags.integer("max_envs", 1024, "Environments that may be connected.", lower_bound=1),
    flags.SECURITY,
    arguments="a log directory, bundle or URL, instead of --logdir.",
)
def serve(values: flags.FlagValues, *places: str) -> int:
    """Serves a run's policy to actors and other clients, as its learner would."""
    if len(places) + bool(values.logdir) > 1:
        raise UsageError("expected a single log directory")
    security = flags.server_security(values, values.server_address)
    with signals() as stopped, _usable_run(values, *places or [values.logdir]) as (logdir, _):
        stopped.raises = True
        from seed_rl.evaluation.serving import PolicyServer

        server = PolicyServer(logdir, values.checkpoint, values.greedy, values.seed, values.max_envs)
        with contextlib.closing(server.serve(values.server_address, security, stopped)) as rows:
            for row in rows:
                stopped.asks()
                what = f"{counted(int(row['environments']), 'environment')} of {counted(int(row['actors']), 'client')}"
                line = f"{what}, {row['steps_per_second']:,.0f} steps/s"
                if row["episodes"]:
                    line += f", return {row['episode_return']:.2f} after {counted(int(row['episodes']), 'episode')}"
                weights = f"{os.path.basename(server.checkpoint)} ({server.env_frames:,} frames)"
                print(f"{time.strftime('%H:%M:%S')} {line}, {weights}", flush=True)
    return stopped.exit_code


@contextlib.contextmanager
def _usable_run(
    values: flags.FlagValues, place: str | None, *names: str, directories: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Load TensorFlow and yield the directory of the policy at a place or named by `--pretrained`, and output paths.

    These come from `--output`, or else are files (or directories) called `names` in the log directory, or in the
    working directory if `place` isn't one on this machine. Only the latter may exist without `--overwrite`.

    Raises:
      UsageError, ConfigError, CheckpointError, JournalError: a flag or the policy is unusable.
    """
    if bool(place) == bool(values.pretrained):
        raise UsageError("expected either --logdir, the log directory of a run, or --pretrained, a policy's name")
    given = values.output if "output" in values else None
    given = [given] if isinstance(given, str) else given
    if given:
        check_outputs(given, values.overwrite, directories)
    with opened(place or policies.folder(values.pretrained)) as logdir:
        if not is_url(logdir):
            checkpoints.find(logdir, values.checkpoint)  # a mistake needs no TensorFlow
        own = logdir if logdir == place and not is_url(place) else ""
        outputs = given or [os.path.join(own, name) for name in names]
        check_outputs(outputs, directories=directories)
        load_tensorflow()
        yield logdir, outputs
