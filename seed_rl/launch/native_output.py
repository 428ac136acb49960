"""Keeps what native libraries print away from the terminal.

TensorFlow's libraries greet with lines that no setting silences.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def native_stderr_to(path: str) -> Iterator[None]:
    """Sends what is written to file descriptor 2 to the end of a file, but for Python's own `sys.stderr`."""
    python_stderr = sys.stderr
    python_stderr.flush()
    with _descriptor_to(path) as terminal:
        encoding = python_stderr.encoding or "utf-8"
        sys.stderr = open(os.dup(terminal), "w", buffering=1, encoding=encoding, errors="replace")  # noqa: SIM115
        try:
            yield
        finally:
            sys.stderr.close()
            sys.stderr = python_stderr


def load_tensorflow() -> Any:
    """Imports TensorFlow without a word; what matters of what it would log comes as exceptions."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return import_quietly("tensorflow")


def import_quietly(module: str) -> Any:
    """Imports a module while what native code writes to file descriptor 2 goes nowhere.

    `sys.stderr` stays what it is: handlers that are made meanwhile keep it.
    """
    with _descriptor_to(os.devnull), _no_collections():
        return importlib.import_module(module)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Lets Python look for garbage only afterwards, and not among what there is then.

    An import makes next to none, and a large one is searched for it again and again: a quarter of TensorFlow's time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@contextlib.contextmanager
def _descriptor_to(path: str) -> Iterator[int]:
    """Gives a copy of file descriptor 2 as it was."""
    before = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield before
    finally:
        os.dup2(before, 2)
        os.close(before)
