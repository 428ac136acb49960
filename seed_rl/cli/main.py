"""The command line: flags define the run, gin files the experiment."""

import contextlib
import copy
import errno
import functools
import importlib.util
import logging
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Sequence
from importlib.metadata import EntryPoint

from absl import flags

import seed_rl
from seed_rl.cli.flags import OF_ALL_COMMANDS, Command
from seed_rl.errors import Failure, UsageError
from seed_rl.foreign import printable
from seed_rl.runs.run_directory import PrintableFormatter
from seed_rl.settings import did_you_mean
from seed_rl.system.entry_points import declarations
from seed_rl.system.files import explaining, reason
from seed_rl.system.signals import OF_SCHEDULERS, not_ignored

_log = logging.getLogger(__name__)

_NO_HELP = "(no help available)"  # absl's text

OWN = {
    "train": "training:train",
    "learner": "training:learner",
    "actor": "acting:actor",
    "eval": "evaluation:evaluate",
    "plot": "inspection:plot",
    "configs": "inspection:configs",
    "envs": "inspection:envs",
    "doctor": "inspection:doctor",
}
"""Module in `seed_rl.cli.commands` and function of each command that is always there."""
ENTRY_POINTS = "seed_rl.commands"
"""The entry-point group in which packages, the neighbours in `seed_rl.extras` among them, declare further commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if threading.current_thread() is threading.main_thread():
        for number in not_ignored((signal.SIGHUP, *OF_SCHEDULERS)):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))  # runs all clean-up
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # lets the flush at exit succeed
        if error.errno == errno.EPIPE:  # standard output has lost its reader, as in `| head -1`
            return 128 + signal.SIGPIPE
        print(f"seed_rl: {error.filename or 'the output'} can't be written: {reason(error)}", file=sys.stderr)
        return Failure.exit_code
    except ModuleNotFoundError as error:
        if importlib.util.find_spec("tensorflow"):
            raise
        advice = "seed_rl-actor runs actors only; install seed_rl instead"
        print(f"seed_rl: {error.name} is missing: {advice}", file=sys.stderr)
        return UsageError.exit_code


def _main(arguments: list[str]) -> int:
    name, *rest = arguments or [""]
    known = commands()
    if name in ("", "-h", "--help", "help"):
        print(f"seed_rl {seed_rl.__version__}: distributed reinforcement learning with central inference\n\ncommands:")
        for name, entry in known.items():
            with contextlib.suppress(ModuleNotFoundError):  # an installation for actors has fewer commands
                print(f"  {name:10} {entry.load().run.__doc__}")
        print("\nseed_rl <command> --help shows a command's flags.")
        return 0 if arguments else UsageError.exit_code
    if name == "--version":
        print(f"seed_rl {seed_rl.__version__}")
        return 0
    if name not in known:
        guess = did_you_mean(name, known)
        print(f"seed_rl: unknown command {name!r}; commands are {', '.join(known)}.{guess}", file=sys.stderr)
        return UsageError.exit_code
    return carry_out(name, known[name].load(), rest)


def commands() -> dict[str, EntryPoint]:
    """Return every command by name. Only the module of the one that runs is imported, so that actors load little."""
    own = [EntryPoint(name, f"seed_rl.cli.commands.{place}", ENTRY_POINTS) for name, place in OWN.items()]
    return {entry.name: entry for entry in (*own, *declarations(ENTRY_POINTS))}


def carry_out(name: str, command: Command, arguments: Sequence[str]) -> int:
    """Run a command with the arguments after its name; print errors of this package as one line."""
    values = flags.FlagValues()
    for define in (*command.flags, *OF_ALL_COMMANDS):
        define(flag_values=values, module_name="flags")
    try:
        paths = values([f"seed_rl {name}", *arguments])[1:]
        if values.help:
            print(_help(command, values))
            return 0
        if paths and not command.arguments:
            raise UsageError(f"unexpected argument {paths[0]!r} (flags begin with --)")
        _configure_logging(values.log_level, quiet="quiet" in values and values.quiet)
        for module in values.import_module if "import_module" in values else ():
            with explaining(UsageError, f"--import_module={module}", ImportError):
                importlib.import_module(module)
        return command.run(values, *paths)
    except (Failure, UsageError, flags.Error) as error:
        _log.debug("full error:", exc_info=error)
        print(printable(f"seed_rl {name}: {error}"), file=sys.stderr)
        return error.exit_code if isinstance(error, Failure) else UsageError.exit_code


def _configure_logging(level: str, quiet: bool) -> None:
    assert logging.lastResort is not None
    on_terminal = copy.copy(logging.lastResort)  # writes to the current sys.stderr, which a live display replaces
    on_terminal.setLevel(max(logging.WARNING if quiet else 0, logging.getLevelName(level.upper())))
    on_terminal.setFormatter(PrintableFormatter("%(asctime)s %(levelname).1s %(name)s: %(message)s", "%H:%M:%S"))
    on_terminal.addFilter(lambda record: level == "debug" or not getattr(record, "in_full", False))
    logging.basicConfig(level=level.upper(), handlers=[on_terminal])
    for library in ("absl", "tensorflow"):  # they log every file and device
        logging.getLogger(library).setLevel(logging.WARNING)


def _help(command: Command, values: flags.FlagValues) -> str:
    columns = min(shutil.get_terminal_size().columns, 100)
    indent = 4 + max(len(f"--{name}") for name in values if values[name].help != _NO_HELP)
    about = textwrap.wrap(f"arguments: {command.arguments}", columns) if command.arguments else []
    lines = [command.run.__doc__ or "", "", f"example: {command.example}", *about, ""]
    wrap = functools.partial(textwrap.wrap, width=columns, subsequent_indent=" " * indent, break_on_hyphens=False)
    for title, group in values.flags_by_module_dict().items():
        lines.append(f"{title}:")
        for flag in group:
            default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
            shown = "" if default in (None, "", False) else f" (default {default})"
            if flag.name != "help" and flag.help != _NO_HELP:
                text = flag.help.partition(";\n")[0] + shown  # absl appends a note to repeatable flags
                lines += wrap(text, initial_indent=f"  --{flag.name}".ljust(indent))
    return "\n".join(lines)
