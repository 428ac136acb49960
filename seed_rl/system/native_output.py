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

from seed_rl.foreign import described

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


class CannotLoad(ImportError):
    """TensorFlow or Keras can't be used in this process; one sentence."""


def load_tensorflow() -> Any:
    """Imports TensorFlow and Keras silently, whatever Keras is set to on this machine; serious errors are exceptions.

    Without garbage collection: an import makes next to no garbage, and looking for it would take a quarter of the time.

    Raises:
      CannotLoad: one can't be imported, or Keras has been, with another backend.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not any(map(glob.glob, _TPU_CHIPS)):
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # a build for TPUs would ask a metadata server for minutes
    collects = gc.isenabled()
    gc.disable()
    try:
        with _descriptor_to(os.devnull):  # `sys.stderr` stays the same object, as handlers that are made now keep it
            tensorflow, keras = map(importlib.import_module, ("tensorflow", "keras"))
    except Exception as error:  # a package that they import may be broken in any way
        raise CannotLoad(f"TensorFlow can't be loaded: {described(error)}; `seed_rl doctor` examines more") from error
    finally:
        gc.freeze()
        if collects:
            gc.enable()
    if keras.backend.backend() != "tensorflow":
        raise CannotLoad(f"Keras was imported before with backend {keras.backend.backend()}, and needs tensorflow here")
    keras.config.set_image_data_format("channels_last")  # ~/.keras/keras.json may say otherwise
    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    return tensorflow


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
