"""Checkpoints: an archive each (see `seed_rl.system.archives`) of named arrays and JSON state.

A checkpoint is written under another name, flushed to disk and renamed: a file with a checkpoint's name is complete.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.foreign import json_object, shortened
from seed_rl.system.archives import Archive, BadArchive, writing
from seed_rl.system.files import complete_or_absent, reason
from seed_rl.system.object_store import files_in, local_file

_log = logging.getLogger(__name__)

_NAME = re.compile(r"checkpoint-(\d{12})\.npz")
_STATE = "counters.json"


class CheckpointError(Exception):
    """A checkpoint that can't be used or written; the message names it and the reason."""


def save(directory: str, step: int, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any], keep: int) -> None:
    """Writes a checkpoint of `step` (learner updates) and removes the oldest beyond `keep`.

    Raises:
      OSError: it could not be written; older checkpoints are untouched.
    """
    text = np.frombuffer(json.dumps(dict(state)).encode(), np.uint8)
    path = os.path.join(directory, f"checkpoint-{step:012d}.npz")
    with complete_or_absent(path) as file, writing(file) as add:
        for name, array in {_STATE: text, **arrays}.items():
            add(name, array)
    for old in paths(directory)[:-keep]:
        os.remove(old)


def paths(directory: str) -> list[str]:
    """Complete checkpoints in a directory, which may be in an object store, oldest first.

    Raises:
      CannotReach: the store can't be read.
    """
    return [os.path.join(directory, name) for name in files_in(directory) if _NAME.fullmatch(name)]


def newest(directory: str) -> tuple[str, dict[str, np.ndarray], dict[str, Any]] | None:
    """The newest readable checkpoint: path, arrays, state; None without any.

    Raises:
      CheckpointError: all of them are damaged.
      CannotReach: they are in an object store that can't be read.
    """
    damaged: CheckpointError | None = None
    for path in reversed(paths(directory)):
        try:
            return (path, *load(path))
        except CheckpointError as error:
            _log.warning("%s", error)
            damaged = damaged or error
    if damaged is not None:
        raise damaged
    return None


def load(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and state of one checkpoint file, which may be in an object store.

    Raises:
      CheckpointError: it can't be read.
      CannotReach: the store can't be.
    """
    try:
        with local_file(path) as local, open(local, "rb") as file:
            arrays = dict(Archive(file))
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {reason(error)}") from error
    except BadArchive as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if _STATE not in arrays:
        raise CheckpointError(f"{path} is no checkpoint: it lacks {_STATE}")
    try:
        return arrays, json_object(arrays.pop(_STATE).tobytes())
    except ValueError as error:
        raise CheckpointError(f"{path} is no checkpoint: {_STATE} in it can't be read: {error}") from error


def name_variables(prefix: str, variables: Sequence[Any]) -> dict[str, Any]:
    """Keras variables by a name that is the same in every process: their index and their own name."""
    return {f"{prefix}/{index:03d}/{variable.name}": variable for index, variable in enumerate(variables)}


def assign(variables: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str) -> None:
    """Gives variables the values saved under their names.

    Raises:
      CheckpointError: names, shapes or kinds of numbers are not the same.
    """
    if set(variables) != set(arrays):
        missing, extra = sorted(set(variables) - set(arrays)), sorted(set(arrays) - set(variables))
        raise CheckpointError(f"{path} is of another agent: it lacks {shortened(missing)} and has {shortened(extra)}")
    for name, variable in variables.items():
        if not np.can_cast(arrays[name].dtype, variable.dtype, "same_kind"):
            raise CheckpointError(f"{path}: {name} holds {arrays[name].dtype}, needed is {variable.dtype}")
        if tuple(variable.shape) != arrays[name].shape:
            raise CheckpointError(f"{path}: {name} has shape {arrays[name].shape}, needed is {tuple(variable.shape)}")
    for name, variable in variables.items():
        variable.assign(arrays[name])
