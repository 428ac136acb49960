"""Keeps the output of native libraries off the terminal: TensorFlow prints lines that no setting silences."""

import contextlib
import gc
import glob
import importlib
import os
import pathlib
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

from seed_rl.errors import UsageError
from seed_rl.foreign import description_of

ENVIRONMENT = {
    # TensorFlow's default is oneDNN only on CPUs with AVX-512 VNNI, BF16 or AMX. Elsewhere, too, it halves an update.
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
"""Variables that TensorFlow reads when it is imported, with their values then, unless the user sets them."""
HIDDEN = {"jax"}
"""Packages that TensorFlow and Keras don't get to see meanwhile: they would load them for functions that are not used
here. JAX takes half as long again; see also `cli/own_process.py`."""


@contextlib.contextmanager
def native_stderr_to(path: str) -> Iterator[None]:
    """Append what is written to file descriptor 2 to a file, except the output of Python's `sys.stderr`."""
    python_stderr = sys.stderr
    python_stderr.flush()
    with _descriptor_to(path) as terminal:
        encoding = python_stderr.encoding or "utf-8"
        ours = open(os.dup(terminal), "w", buffering=1, encoding=encoding, errors="replace")  # noqa: SIM115
        sys.stderr = ours
        try:
            yield
        finally:
            sys.stderr = python_stderr
            with contextlib.suppress(OSError):  # of a terminal that is gone, a full disk
                ours.close()


class CannotLoad(UsageError):
    """TensorFlow or Keras can't be used in this process; the message is one line."""


_imported_in = os.getpid()
_loading = threading.Lock()


def _lacks_threads() -> bool:
    """Whether this process was forked from one in which TensorFlow had run, whose threads are missing here."""
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    if os.getpid() == _imported_in or getattr(context, "_context_handle", None) is None:
        return False
    for thread in glob.glob("/proc/self/task/*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            if pathlib.Path(thread).read_text().startswith("tf_"):
                return False
    return True


def load_tensorflow() -> Any:
    """Import TensorFlow and Keras silently; errors are still raised. The process is as before.

    Raises:
      ModuleNotFoundError: TensorFlow is not installed.
      CannotLoad: the import fails otherwise, Keras was imported before with another backend, or has another float type,
        or this process was forked after TensorFlow ran.
    """
    if _lacks_threads():
        raise CannotLoad("this process was forked after TensorFlow ran and would wait for ever: spawn it instead")
    try:
        with _loading, _as_it_was(), _descriptor_to(os.devnull):  # not `sys.stderr`, which new log handlers would keep
            tensorflow, keras = map(importlib.import_module, ("tensorflow", "keras"))
    except Exception as error:  # broken dependencies may raise anything
        if getattr(error, "name", None) == "tensorflow":
            raise
        raise CannotLoad(f"TensorFlow can't be loaded: {description_of(error)}; `seed_rl doctor` says more") from error
    if (backend := keras.backend.backend()) != "tensorflow":
        raise CannotLoad(f"Keras was imported before with backend {backend}, and needs tensorflow here")
    if (kind := keras.config.floatx()) != "float32":
        raise CannotLoad(f"Keras is set to {kind} (~/.keras/keras.json), and needs float32 here")
    return tensorflow


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """Lend this process what TensorFlow and Keras are imported with, and undo what that changes."""
    names = (*ENVIRONMENT, "KERAS_BACKEND", "LD_LIBRARY_PATH")  # the last by OpenCV, if Keras finds it
    before = {name: os.environ[name] for name in names if name in os.environ}
    drawn, collects, hidden = random.getstate(), gc.isenabled(), [name for name in HIDDEN if name not in sys.modules]
    os.environ.update({**ENVIRONMENT, **before, "KERAS_BACKEND": "tensorflow"})
    gc.disable()  # it would take a quarter of the time and find hardly any garbage
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
        random.setstate(drawn)  # Keras draws a seed
        if collects:
            gc.enable()


@contextlib.contextmanager
def _descriptor_to(path: str) -> Iterator[int]:
    """Redirect file descriptor 2 to a file; yield a copy of the original descriptor."""
    with open(path, "ab") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
    try:
        yield before
    finally:
        os.dup2(before, 2)
        os.close(before)
