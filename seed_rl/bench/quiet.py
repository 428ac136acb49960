"""Loads TensorFlow without the lines that it prints while it loads, which no setting silences."""

from __future__ import annotations

import importlib
import os
from typing import Any


def import_quietly(module: str) -> Any:
    """Imports a module while what native code writes to file descriptor 2 goes nowhere.

    `sys.stderr` stays what it is: handlers that are made meanwhile keep it.
    """
    descriptor = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        return importlib.import_module(module)
    finally:
        os.dup2(descriptor, 2)
        os.close(descriptor)
