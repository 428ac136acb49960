"""Checks command lines of `seed_rl` in one process: flags, gin files and bindings, without carrying the commands out.

A plan is carried out, with constants for what it would measure.

Reads a JSON list of `Line`s from standard input, and prints the complaint about each, "" if there is none.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import sys
from typing import NamedTuple
from unittest import mock

from seed_rl.cli import main as command_line
from seed_rl.cli.commands.experiment import load
from seed_rl.cli.flags import Command

QUICK = ("configs", "envs")
"""Commands that are carried out; `envs check` is by outputs_test.py and guide_test.py, with what the pages define."""


class Line(NamedTuple):
    """A command line with what the shell knew."""

    arguments: list[str]
    folder: str
    python_path: str
    is_complete: bool
    """False for a mention of some flags, such as `seed_rl train --launcher=ray`."""


def complaint(line: Line) -> str:
    """The error that `seed_rl` would print before its work; "" without one."""
    errors = io.StringIO()
    with contextlib.chdir(line.folder), contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        places = [os.path.abspath(part) for part in line.python_path.split(":") if part]
        places += [line.folder] if os.path.exists("pyproject.toml") else []  # as after `pip install -e .`
        variable = os.pathsep.join(filter(None, [line.python_path, *sys.path]))
        with mock.patch.object(sys, "path", [*places, *sys.path]), mock.patch.dict(os.environ, PYTHONPATH=variable):
            code = _code(line)
    return errors.getvalue() if code else ""


def _code(line: Line) -> int:
    name, *arguments = (each.replace("module=my_package", "module=json") for each in line.arguments)  # the reader's own
    known = command_line.commands()
    if name not in known or (name in QUICK and line.is_complete and arguments[:1] != ["check"]):
        return command_line.main(line.arguments)
    return command_line.carry_out(name, _without_work(known[name].load(), line), arguments)


def _without_work(command: Command, line: Line) -> Command:
    if line.is_complete and line.arguments[0] == "plan":
        plan = importlib.import_module(f"{command.run.__module__.rpartition('.')[0]}.plan")
        plan.env_steps = plan.act_ms = plan.update_ms = lambda *_: (10.0, "a constant")
        return command

    def run(values, *paths):
        if line.is_complete and line.arguments[0] == "sweep":
            studies = inspect.getmodule(command.run)
            studies._run = lambda study: 0  # what is left are the mistakes before it
            (studies._search if values.search else studies._sweep)(values)
        elif line.is_complete and "gin_file" in values:
            load(values)
        return 0

    return command._replace(run=run)


if __name__ == "__main__":
    print(json.dumps([complaint(Line(*line)) for line in json.load(sys.stdin)]))
