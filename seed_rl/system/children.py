"""Processes of this program that others of it start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable


def python(code: str, *arguments: str) -> list[str]:
    """The command line of a Python process that finds the same modules as this one.

    By itself Python looks into the working directory first, where a file may have the name of any module; -P says the
    same to the processes that this one starts.
    """
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", *arguments]


def seed_rl(*arguments: str) -> list[str]:
    """The command line of a `seed_rl` command that finds the same modules as this process."""
    return python("from seed_rl.__main__ import main; sys.exit(main())", *arguments)


def guard_of(groups: Iterable[int | None], folder: str = "") -> subprocess.Popen[bytes]:
    """A shell that kills process groups, then removes a folder, when its standard input is closed, by whatever end."""
    script = 'read -r _; kill -9 "$@"; [ -z "$0" ] || rm -rf -- "$0"'
    program = ["/bin/sh", "-c", script, folder, *(f"-{group}" for group in groups)]
    return subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
