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
from seed_rl.launch import flags as groups

FAILURE = 1
USAGE_ERROR = 2

_WIDEST_HELP = 100


class UsageError(Exception):
    """Something the caller wrote on the command line; the message is one sentence."""


class Command(NamedTuple):
    """A command of the command line."""

    summary: str
    example: str
    function: str
    """`module.function`, relative to `launch.commands`."""
    flags: tuple[Callable[[flags.FlagValues], None], ...] = ()
    """Define its flags, besides those of every command."""
    takes_places: bool = False
    """Whether arguments without -- are allowed."""


COMMANDS = {
    "train": Command(
        "Trains on this machine or a Ray cluster: a learner and its actors.",
        "seed_rl train --gin_file=atari/vtrace_pong --logdir=runs/pong",
        "training.train",
        (
            groups.experiment_flags,
            groups.address_flag("", "Where actors are served; default: a unix socket of this run's own."),
            groups.server_flags,
            groups.hosts_flags,
            groups.launcher_flags,
            groups.quiet_flag,
        ),
    ),
    "learner": Command(
        "Runs a learner that waits for actors.",
        "seed_rl learner --gin_file=catch/vtrace --server_address=localhost:8686",
        "training.learner",
        (
            groups.experiment_flags,
            groups.address_flag(groups.DEFAULT_TCP_ADDRESS, "Where actors are served: host:port or unix:/path."),
            groups.server_flags,
            groups.hosts_flags,
            groups.quiet_flag,
        ),
    ),
    "actor": Command(
        "Runs an actor for a learner; it asks the learner which environments to step.",
        "seed_rl actor --server_address=localhost:8686",
        "acting.actor",
        (
            groups.address_flag(groups.DEFAULT_TCP_ADDRESS, "Where the learner is: host:port or unix:/path."),
            groups.client_flags,
            groups.actor_flags,
        ),
    ),
    "sweep": Command(
        "Trains with combinations of settings and seeds, and compares them.",
        "seed_rl sweep --gin_file=catch/vtrace --grid=VTrace.hidden=32,64",
        "training.sweep",
        (groups.sweep_flags,),
    ),
    "eval": Command(
        "Plays episodes with what a run has learned, and prints their mean.",
        "seed_rl eval --logdir=runs/pong --episodes=100 --greedy",
        "evaluation.evaluate",
        (groups.policy_flags, groups.acting_flags, groups.eval_flags),
    ),
    "play": Command(
        "Films episodes that are played with what a run has learned.",
        "seed_rl play --logdir=runs/pong --output=pong.mp4,pong.gif",
        "evaluation.play",
        (groups.policy_flags, groups.acting_flags, groups.play_flags),
    ),
    "export": Command(
        "Writes what a run has learned as a SavedModel, to act without seed_rl.",
        "seed_rl export --logdir=runs/pong --output=pong_policy",
        "evaluation.export",
        (groups.policy_flags, groups.export_flags),
    ),
    "plot": Command(
        "Draws the learning curves of runs; seeds of one configuration as one curve.",
        "seed_rl plot runs/pong runs/pong_lstm --output=pong.png,pong.svg",
        "inspection.plot",
        (groups.plot_flags,),
        takes_places=True,
    ),
    "plan": Command(
        "Says what a learner needs: actors, cores, network, memory.",
        "seed_rl plan --gin_file=atari/vtrace_pong --rtt_ms=5",
        ".plan.command",
        (groups.plan_flags,),
    ),
    "configs": Command("Lists the shipped experiments.", "seed_rl configs", "inspection.configs"),
    "doctor": Command(
        "Checks the installation: what is missing, and how to get it.",
        "seed_rl doctor --logdir=gs://bucket/run",
        "inspection.doctor",
        (groups.doctor_flags,),
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
    values = groups.all_of(*COMMANDS[command].flags)
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
    module, _, name = COMMANDS[command].function.rpartition(".")
    return getattr(importlib.import_module(f".{module}", "seed_rl.launch.commands"), name)


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
