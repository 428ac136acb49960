"""Keeps the output of native libraries off the terminal: TensorFlow's print lines that no setting silences."""

from __future__ import annotations

import contextlib
import gc
import glob
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

_TPU_CHIPS = ("/dev/accel*", "/dev/vfio/[0-9]*")


@contextlib.contextmanager
def native_stderr_to(path: str) -> Iterator[None]:
    """Appends the output to file descriptor 2 to a file, except that of Python's own `sys.stderr`."""
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
    """Imports TensorFlow silently; its serious errors come as exceptions.

    Without garbage collection: an import makes next to no garbage, and looking for it would take a quarter of the time.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not any(map(glob.glob, _TPU_CHIPS)):
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # a build for TPUs would ask a metadata server for minutes
    collects = gc.isenabled()
    gc.disable()
    try:
        with _descriptor_to(os.devnull):  # `sys.stderr` stays the same object, as handlers that are made now keep it
            return importlib.import_module("tensorflow")
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@contextlib.contextmanager
def _descriptor_to(path: str) -> Iterator[int]:
    """Redirects file descriptor 2; yields a copy of it as it was."""
    before = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield before
    finally:
        os.dup2(before, 2)
        os.close(before)
