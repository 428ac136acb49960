"""The command line: flags for the run, gin for the experiment."""

from __future__ import annotations

import importlib
import logging
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

from absl import flags

from seed_rl import __version__
from seed_rl.experiment import ConfigError

FAILURE = 1
USAGE_ERROR = 2

DEFAULT_TCP_ADDRESS = "localhost:8686"
_WIDEST_HELP = 100


class UsageError(Exception):
    """Something the caller wrote on the command line; the message is one sentence."""


def _flags(*groups: Callable[[flags.FlagValues], None]) -> flags.FlagValues:
    values = flags.FlagValues()
    flags.DEFINE_enum(
        "log_level", "info", ["debug", "info", "warning", "error"], "How much to log.", flag_values=values
    )
    flags.DEFINE_boolean("help", False, "Show this help.", short_name="h", flag_values=values)
    for group in groups:
        group(values)
    return values


def _experiment_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string(
        "gin_file",
        [],
        "Gin file with the experiment: a path, or a shipped one such as atari/vtrace_pong. May be repeated.",
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "gin_param",
        [],
        "Gin binding that wins over the files, e.g. Optimizer.learning_rate=1e-4. May be repeated.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "logdir",
        None,
        "Directory of the run; started again on it, a run continues. Default: runs/<name of gin file>.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "total_frames", None, "Overrides Experiment.total_frames (environment frames).", flag_values=values
    )
    flags.DEFINE_integer("num_actors", None, "Overrides Actors.num_actors.", flag_values=values)
    flags.DEFINE_integer("seed", None, "Overrides Experiment.seed.", flag_values=values)


def _server_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("tls_cert", None, "PEM file with the learner's certificate chain.", flag_values=values)
    flags.DEFINE_string("tls_key", None, "PEM file with the certificate's private key.", flag_values=values)
    _tls_name_flag(values)
    _token_flags(values)


def _client_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "tls_ca",
        None,
        "PEM file with the certificate (or its authority) that the learner must show; turns TLS on.",
        flag_values=values,
    )
    _tls_name_flag(values)
    _token_flags(values)


def _tls_name_flag(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "tls_server_name",
        None,
        "Name in the learner's certificate, where it is not the host of the address that actors use.",
        flag_values=values,
    )


def _token_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "token_file",
        None,
        "File with the secret that learner and actors share (or set SEED_RL_TOKEN).",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "insecure", False, "Allow an address other hosts can reach without TLS and token.", flag_values=values
    )


def _address_flag(default: str, help_text: str) -> Callable[[flags.FlagValues], None]:
    def define(values: flags.FlagValues) -> None:
        flags.DEFINE_string("server_address", default, help_text, flag_values=values)

    return define


def _plot_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_list(
        "output", ["curve.png"], "Files to write; their endings say the format: .png, .svg, .pdf.", flag_values=values
    )
    flags.DEFINE_enum("x", "frames", ["frames", "hours"], "Horizontal axis.", flag_values=values)


def _policy_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("logdir", None, "Log directory of the run.", flag_values=values)
    flags.DEFINE_string("checkpoint", None, "One of its checkpoints; default: the newest.", flag_values=values)


def _acting_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean("greedy", False, "Take the best action always, without exploring.", flag_values=values)
    flags.DEFINE_integer(
        "seed",
        1,
        "Of environments and sampled actions.",
        lower_bound=0,
        upper_bound=2**31 - 1,
        flag_values=values,
    )


def _eval_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer("episodes", 100, "Episodes to play.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("envs", 16, "Environments played at a time.", lower_bound=1, flag_values=values)
    flags.DEFINE_string(
        "output",
        None,
        "JSON file with every episode; default: evaluation.json in the log directory.",
        flag_values=values,
    )


def _play_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer("episodes", 1, "Episodes to film, one after the other.", lower_bound=1, flag_values=values)
    flags.DEFINE_list(
        "output",
        None,
        "Files to write, .mp4 or .gif; default: play.mp4 and play.gif in the log directory.",
        flag_values=values,
    )
    flags.DEFINE_float("fps", 15.0, "Agent steps per second.", lower_bound=0.1, flag_values=values)


def _export_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output", None, "Directory; default: export in the log directory.", flag_values=values)
    flags.DEFINE_integer("batch_size", 1, "Environments in a call.", lower_bound=1, flag_values=values)


def _hosts_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_list(
        "learner_hosts", [], "host:port of each of several learners that train together.", flag_values=values
    )
    flags.DEFINE_integer("learner_host", 0, "Which of them this one is, from 0.", flag_values=values)


def _quiet_flag(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean("quiet", False, "Show nothing but warnings and errors.", flag_values=values)


def _launcher_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "launcher",
        "local",
        ["local", "ray"],
        "Where actors run: as processes on this machine, or on a Ray cluster.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "ray_address",
        None,
        "host:port of the Ray cluster; default: RAY_ADDRESS, else one on this machine, else a new one for this run.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "ray_learner",
        None,
        "Ray resource whose node gets the learner, such as GPU or node:10.0.0.5, or `here`: this process; "
        "default: GPU if the cluster has one, else here.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "min_actors",
        None,
        "On Ray, a run with fewer actors for five minutes ends; default 1. Actors.num_actors is the maximum.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_float(
        "actor_cpus", None, "CPUs that Ray sets aside for an actor; default 1.", lower_bound=0.0, flag_values=values
    )


def _sweep_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string("gin_file", [], "Gin file with the experiment. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string("gin_param", [], "Gin binding for all runs. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string(
        "grid", [], "Gin binding with several values: NAME=VALUE,VALUE. May be repeated.", flag_values=values
    )
    flags.DEFINE_list("seeds", ["1"], "Seeds of each combination.", flag_values=values)
    flags.DEFINE_integer("parallel", 1, "Runs at a time.", lower_bound=1, flag_values=values)
    flags.DEFINE_string("logdir", None, "Where the runs go; default: runs/sweep_<gin file>.", flag_values=values)
    flags.DEFINE_integer("total_frames", None, "Overrides Experiment.total_frames.", flag_values=values)


def _actor_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "num_groups", None, "Environment groups; default: as the learner asks.", lower_bound=1, flag_values=values
    )
    flags.DEFINE_integer(
        "envs_per_group",
        None,
        "Environments per group; default: as the learner asks.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "import_module", [], "Python module that registers an environment suite. May be repeated.", flag_values=values
    )
    flags.DEFINE_boolean(
        "share_memory",
        True,
        "Let a learner on this machine read steps from memory; --noshare_memory: send them, as to another machine.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "exit_with_parent", False, "End when standard input is closed (set by `train`).", flag_values=values
    )


def _plan_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_multi_string("gin_file", [], "Gin file with the experiment. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string("gin_param", [], "Gin binding that wins over the files.", flag_values=values)
    flags.DEFINE_string("measured", "runs/bench", "Directory with the files of `seed_rl bench`.", flag_values=values)
    flags.DEFINE_float(
        "rtt_ms", 1.0, "Round trip between actors and learner, milliseconds.", lower_bound=0.0, flag_values=values
    )
    flags.DEFINE_integer("machine_cores", 16, "Cores of one actor machine.", lower_bound=1, flag_values=values)
    for name, text in (
        ("env_steps", "Agent steps/s of the environments of one core"),
        ("act_ms", "Milliseconds of an act step of --act_batch"),
        ("update_ms", "Milliseconds of an update, with the experiment's batch"),
        ("server_us", "Microseconds of the server's thread per message"),
        ("host_us", "Microseconds of batching and answering per step"),
    ):
        flags.DEFINE_float(name, None, f"{text}; default: as measured.", lower_bound=1e-9, flag_values=values)
    for name, text, default in (
        ("act_batch", "Environments per act step", "Inference.max_batch_size"),
        ("learner_cores", "Cores of the learner's machine", "those of the measurement"),
    ):
        flags.DEFINE_integer(name, None, f"{text}; default: {default}.", lower_bound=1, flag_values=values)
    flags.DEFINE_boolean(
        "accelerator", None, "Whether the learner has one; default: as it was measured.", flag_values=values
    )


class Command(NamedTuple):
    """A command of the command line."""

    summary: str
    example: str
    function: str
    """`module.function` of `launch.commands`."""
    flags: tuple[Callable[[flags.FlagValues], None], ...] = ()
    """Define its flags, besides those of every command."""
    takes_places: bool = False
    """Whether arguments without -- are allowed."""
    reads_its_own: bool = False
    """Whether it gets all arguments as they are, those for help included."""


COMMANDS = {
    "train": Command(
        "Trains on this machine or a Ray cluster: a learner and its actors.",
        "seed_rl train --gin_file=atari/vtrace_pong --logdir=runs/pong",
        "training.train",
        (
            _experiment_flags,
            _address_flag("", "Where actors are served; default: a unix socket of this run's own."),
            _server_flags,
            _hosts_flags,
            _launcher_flags,
            _quiet_flag,
        ),
    ),
    "learner": Command(
        "Runs a learner that waits for actors.",
        "seed_rl learner --gin_file=catch/vtrace --server_address=localhost:8686",
        "training.learner",
        (
            _experiment_flags,
            _address_flag(DEFAULT_TCP_ADDRESS, "Where actors are served: host:port or unix:/path."),
            _server_flags,
            _hosts_flags,
            _quiet_flag,
        ),
    ),
    "actor": Command(
        "Runs an actor for a learner; it asks the learner which environments to step.",
        "seed_rl actor --server_address=localhost:8686",
        "acting.actor",
        (
            _address_flag(DEFAULT_TCP_ADDRESS, "Where the learner is: host:port or unix:/path."),
            _client_flags,
            _actor_flags,
        ),
    ),
    "sweep": Command(
        "Trains with combinations of settings and seeds, and compares them.",
        "seed_rl sweep --gin_file=catch/vtrace --grid=VTrace.hidden=32,64",
        "training.sweep",
        (_sweep_flags,),
    ),
    "eval": Command(
        "Plays episodes with what a run has learned, and prints their mean.",
        "seed_rl eval --logdir=runs/pong --episodes=100 --greedy",
        "evaluation.evaluate",
        (_policy_flags, _acting_flags, _eval_flags),
    ),
    "play": Command(
        "Films episodes that are played with what a run has learned.",
        "seed_rl play --logdir=runs/pong --output=pong.mp4,pong.gif",
        "evaluation.play",
        (_policy_flags, _acting_flags, _play_flags),
    ),
    "export": Command(
        "Writes what a run has learned as a SavedModel, to act without seed_rl.",
        "seed_rl export --logdir=runs/pong --output=pong_policy",
        "evaluation.export",
        (_policy_flags, _export_flags),
    ),
    "plot": Command(
        "Draws the learning curves of runs; seeds of one configuration as one curve.",
        "seed_rl plot runs/pong runs/pong_lstm --output=pong.png,pong.svg",
        "inspection.plot",
        (_plot_flags,),
        takes_places=True,
    ),
    "plan": Command(
        "Says what a learner needs: actors, cores, network, memory.",
        "seed_rl plan --gin_file=atari/vtrace_pong --rtt_ms=5",
        "planning.plan",
        (_plan_flags,),
    ),
    "configs": Command("Lists the shipped experiments.", "seed_rl configs", "inspection.configs"),
    "doctor": Command(
        "Checks the installation: what is missing, and how to get it.", "seed_rl doctor", "inspection.doctor"
    ),
    "bench": Command(
        "Measures the parts and the whole; without a name it lists what there is.",
        "seed_rl bench env transport --quick",
        "inspection.bench",
        reads_its_own=True,
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else USAGE_ERROR
    if arguments[0] == "--version":
        print(f"seed_rl {__version__}")
        return 0
    command = arguments[0]
    if command not in COMMANDS:
        print(f"seed_rl: no command {command!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE_ERROR
    try:
        return _run(command, arguments[1:])
    except (flags.Error, UsageError, ConfigError) as error:
        print(f"seed_rl {command}: {error}", file=sys.stderr)
        return USAGE_ERROR


def _run(command: str, arguments: Sequence[str]) -> int:
    if COMMANDS[command].reads_its_own:
        return _function(command)(arguments)
    values = _flags(*COMMANDS[command].flags)
    rest = values([f"seed_rl {command}", *arguments])[1:]
    if values.help:
        print(_help(command, values))
        return 0
    if rest and not COMMANDS[command].takes_places:
        raise UsageError(f"unexpected argument {rest[0]!r} (flags begin with --)")
    _configure_logging(values.log_level, quiet="quiet" in values and values.quiet)
    return _function(command)(values, *rest)


def _function(command: str) -> Callable[..., int]:
    """Imported late: an actor must stay free of the learner's libraries, and a wrong flag say so at once."""
    module, name = COMMANDS[command].function.split(".")
    return getattr(importlib.import_module(f"seed_rl.launch.commands.{module}"), name)


class _StderrHandler(logging.StreamHandler):
    """Writes to what `sys.stderr` is at the moment: a live display puts itself there to stay below the log."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        pass


def _configure_logging(level: str, quiet: bool) -> None:
    on_terminal = _StderrHandler()
    on_terminal.setLevel(max(logging.WARNING if quiet else 0, logging.getLevelName(level.upper())))
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        handlers=[on_terminal],
    )
    for library in ("absl", "tensorflow"):  # tell of every file that they write, and of every device
        logging.getLogger(library).setLevel(logging.WARNING)


def _overview() -> str:
    lines = [f"seed_rl {__version__}: distributed reinforcement learning with central inference", "", "commands:"]
    lines += [f"  {name:8} {summary}" for name, (summary, *_) in COMMANDS.items()]
    return "\n".join([*lines, "", "seed_rl <command> --help shows a command's flags."])


def _help(command: str, values: flags.FlagValues) -> str:
    summary, example = COMMANDS[command][:2]
    texts = {}
    for name in sorted(values):
        flag = values[name]
        if flag.name == name and name != "help":  # not the short names
            default = "" if flag.default in (None, "", [], False) else f" (default {_shown(flag.default)})"
            texts[f"--{name}"] = flag.help.partition(";\n")[0] + default  # absl adds a note to repeatable flags
    widest = max(map(len, texts))
    width = min(shutil.get_terminal_size().columns, _WIDEST_HELP) - widest - 4
    lines = [summary, "", f"example: {example}", "", "flags:"]
    for name, text in texts.items():
        first, *rest = textwrap.wrap(text, max(20, width), break_on_hyphens=False)
        lines += [f"  {name:{widest}}  {first}", *(f"  {'':{widest}}  {line}" for line in rest)]
    return "\n".join(lines)


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
