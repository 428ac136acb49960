"""Gin with a private configuration: the program's stays as it is."""

import contextlib
import io
import os
import re
import threading
from collections.abc import Iterator
from importlib import resources
from typing import IO, Any

import gin

from seed_rl.experiment.gone import without_gone_in_text

SHIPPED = str(resources.files("seed_rl.configs"))
"""Directory of the gin files that are shipped with the package."""

_LOCK = threading.RLock()  # gin has one configuration per process


@contextlib.contextmanager
def own_gin() -> Iterator[set[str]]:
    """Give gin an empty configuration and its own files while the context is open, to one thread at a time.

    Yields the names of macros to which the files that are read refer, whatever overrides the reference later.

    Another library of the program may use gin, too: its bindings, imports, readers and search paths come back
    afterwards.
    """
    files = _Files()
    with _LOCK, gin.config_scope(None):
        own: dict[str, Any] = {
            "_CONFIG": {},
            "_CONFIG_IS_LOCKED": False,
            "_FILE_READERS": [(files.open, files.is_there)],
            "_IMPORTS": set(),
            "_LOCATION_PREFIXES": [""],
            "_OPERATIVE_CONFIG": {},
            "_SINGLETONS": {},
        }
        theirs = {name: getattr(gin.config, name) for name in own}
        vars(gin.config).update(own)
        try:
            yield files.references
        finally:
            vars(gin.config).update(theirs)


def references_in(text: str) -> list[str]:
    """Return the names of the macros to which gin bindings refer, as in `Optimizer.learning_rate = %rate`."""
    return re.findall(r"%([\w/]+)", text)


def check_references() -> None:
    """Raise ValueError for a macro, reference or required setting without a binding.

    `gin.finalize` would also call the hooks of others, whose configuration this isn't.
    """
    try:
        gin.config.validate_macros_hook(gin.config._CONFIG)
    except ValueError as error:
        if unbound := re.search(r"'([\w/]+)/gin\.macro'", str(error)):
            raise ValueError(f"%{unbound[1]} has no value: a line {unbound[1]} = ... gives it one") from error
        raise
    gin.config.find_unknown_references_hook(gin.config._CONFIG)
    gin.config.find_missing_overrides_hook(gin.config._CONFIG)


class _Files:
    """Gin files by name: beside the file that includes them, in the working directory, or shipped."""

    def __init__(self) -> None:
        self._including: list[str] = []  # those being read, each included by the previous one
        self.references: set[str] = set()

    def is_there(self, name: str) -> bool:
        return os.path.isfile(self._path(name))

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[str]]:
        path = self._path(name)
        if path in self._including:
            raise ValueError(f"{name} includes itself")
        with open(path, encoding="utf-8-sig") as file:
            text = io.StringIO(without_gone_in_text(file.read(), path))
        text.name = path  # for gin's messages
        self.references.update(references_in(text.getvalue()))
        self._including.append(path)
        try:
            yield text
        finally:
            self._including.pop()

    def _path(self, name: str) -> str:
        beside = [os.path.join(os.path.dirname(self._including[-1]), name)] if self._including else []
        places = [*beside, name, os.path.join(SHIPPED, name)]
        return os.path.realpath(next(filter(os.path.isfile, places), name))
