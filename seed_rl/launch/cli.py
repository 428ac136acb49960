"""The command line: flags for the run, gin for the experiment."""

from __future__ import annotations

import copy
import importlib
import logging
import os
import select
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

from absl import flags

from seed_rl import __version__
from seed_rl.experiment import ConfigError
from seed_rl.launch.flags import OF_ALL_COMMANDS, Flag

FAILURE = 1
USAGE_ERROR = 2

_MAX_HELP_COLUMNS = 100

COMMANDS = {
    "train": "training.train",
    "learner": "training.learner",
    "actor": "acting.actor",
    "sweep": "training.sweep",
    "eval": "evaluation.evaluate",
    "play": "evaluation.play",
    "export": "evaluation.export",
    "plot": "inspection.plot",
    "plan": "planning.plan",
    "configs": "inspection.configs",
    "doctor": "inspection.doctor",
}
"""Where each command is in `launch.commands`. Only the one that runs is imported: an actor stays free of the learner's
libraries."""


class UsageError(Exception):
    """A mistake on the command line, in one sentence."""


class Failure(Exception):
    """Why a command could not do its work, in one sentence."""


class Command(NamedTuple):
    """A command of the command line."""

    run: Callable[..., int]
    """Takes the values of the flags and the arguments without `--`; returns the exit code. Its docstring is the
    summary that `--help` shows."""
    example: str
    flags: tuple[Flag, ...]
    takes_paths: bool
    """Whether arguments without `--` are allowed."""

    @property
    def summary(self) -> str:
        """One sentence."""
        return self.run.__doc__ or ""


def command(example: str, *declared: Flag, takes_paths: bool = False) -> Callable[[Callable[..., int]], Command]:
    """Makes a command of a function."""
    return lambda function: Command(function, example, declared, takes_paths)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        if not _nobody_reads(sys.stdout):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE


def _nobody_reads(stream: TextIO) -> bool:
    """Whether the other end of a pipe is closed, as that of `| head -1`."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else USAGE_ERROR
    if arguments[0] == "--version":
        print(f"seed_rl {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        print(f"seed_rl: no command {name!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE_ERROR
    try:
        return _run(name, arguments[1:])
    except (flags.Error, UsageError, ConfigError, Failure) as error:
        print(f"seed_rl {name}: {error}", file=sys.stderr)
        return FAILURE if isinstance(error, Failure) else USAGE_ERROR


def _find(name: str) -> Command:
    module, function = COMMANDS[name].split(".")
    found: Command = getattr(importlib.import_module(f"seed_rl.launch.commands.{module}"), function)
    return found


def _run(name: str, arguments: Sequence[str]) -> int:
    command = _find(name)
    values = flags.FlagValues()
    for define in (*OF_ALL_COMMANDS, *command.flags):
        define(values)
    rest = values([f"seed_rl {name}", *arguments])[1:]
    if values.help:
        print(_help(command, values))
        return 0
    if rest and not command.takes_paths:
        raise UsageError(f"unexpected argument {rest[0]!r} (flags begin with --)")
    _configure_logging(values.log_level, quiet="quiet" in values and values.quiet)
    return command.run(values, *rest)


def _configure_logging(level: str, quiet: bool) -> None:
    assert logging.lastResort is not None
    on_terminal = copy.copy(logging.lastResort)  # writes to the current sys.stderr: a live display replaces it
    on_terminal.setLevel(max(logging.WARNING if quiet else 0, logging.getLevelName(level.upper())))
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        handlers=[on_terminal],
    )
    for library in ("absl", "tensorflow"):  # they log every file that they write, and every device
        logging.getLogger(library).setLevel(logging.WARNING)


def _overview() -> str:
    lines = [f"seed_rl {__version__}: distributed reinforcement learning with central inference", "", "commands:"]
    lines += [f"  {name:8} {_find(name).summary}" for name in COMMANDS]
    return "\n".join([*lines, "", "seed_rl <command> --help shows a command's flags."])


def _help(command: Command, values: flags.FlagValues) -> str:
    texts = {}
    for name in sorted(values):
        flag = values[name]
        if flag.name == name and name != "help":  # not the short names
            default = "" if flag.default in (None, "", [], False) else f" (default {_as_typed(flag.default)})"
            texts[f"--{name}"] = flag.help.partition(";\n")[0] + default  # absl adds a note to repeatable flags
    widest = max(map(len, texts))
    width = min(shutil.get_terminal_size().columns, _MAX_HELP_COLUMNS) - widest - 4
    lines = [command.summary, "", f"example: {command.example}", "", "flags:"]
    for name, text in texts.items():
        first, *rest = textwrap.wrap(text, max(20, width), break_on_hyphens=False)
        lines += [f"  {name:{widest}}  {first}", *(f"  {'':{widest}}  {line}" for line in rest)]
    return "\n".join(lines)


def _as_typed(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
