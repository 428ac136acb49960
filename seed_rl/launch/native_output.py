"""Keeps what native libraries print away from the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def native_stderr_to(path: str) -> Iterator[None]:
    """Sends what is written to file descriptor 2 to the end of a file, but for Python's own `sys.stderr`.

    TensorFlow's libraries greet with lines that no setting silences, and which would tear a live display apart.
    """
    python_stderr = sys.stderr
    descriptor = os.dup(2)
    terminal = open(os.dup(descriptor), "w", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115
    with open(path, "ab") as file:
        python_stderr.flush()
        os.dup2(file.fileno(), 2)
    sys.stderr = terminal
    try:
        yield
    finally:
        os.dup2(descriptor, 2)
        os.close(descriptor)
        sys.stderr = python_stderr
        terminal.close()
