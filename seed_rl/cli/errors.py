"""One-sentence errors that end a command."""

from __future__ import annotations

import os
from collections.abc import Iterable


class UsageError(Exception):
    """The command line is wrong; one sentence."""


class Failure(Exception):
    """The command could not do its work; one sentence."""


def check_outputs(paths: Iterable[str], overwrite: bool = True) -> None:
    """Check, before the work, that `--output` files can be written.

    Raises:
      UsageError: one can't, or exists although it must not.
    """
    for path in paths:
        parent = os.path.dirname(path) or "."
        if not os.path.isdir(parent):
            raise UsageError(f"--output {path} can't be written: there is no directory {parent}")
        if not os.access(path if os.path.exists(path) else parent, os.W_OK):
            raise UsageError(f"--output {path} can't be written: permission denied")
        if os.path.exists(path) and not overwrite:
            raise UsageError(f"--output {path} exists already: choose another name, or --overwrite")
