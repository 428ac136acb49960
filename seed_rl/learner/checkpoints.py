"""Checkpoints: an .npz file each (no pickled objects) of named arrays and JSON state.

A checkpoint is written under another name, flushed to disk and renamed: a file with a checkpoint's name is complete.
Its last bytes, the comment of the .npz archive, are the SHA-256 of all others: a damaged file is never loaded.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.files import complete_or_absent
from seed_rl.object_store import files_in, local_file

_log = logging.getLogger(__name__)

_NAME = re.compile(r"checkpoint-(\d{12})\.npz")
_STATE = "counters.json"
_CHECKSUM_BYTES = hashlib.sha256().digest_size


class CheckpointError(Exception):
    """A checkpoint that can't be used or written; the message names it and the reason."""


def save(directory: str, step: int, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any], keep: int) -> None:
    """Writes a checkpoint of `step` (learner updates) and removes the oldest beyond `keep`.

    Raises:
      OSError: it could not be written; older checkpoints are untouched.
    """
    text = np.frombuffer(json.dumps(dict(state)).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_STATE: text, **arrays})  # type: ignore[arg-type]
    with zipfile.ZipFile(content, "a") as archive:
        archive.comment = bytes(_CHECKSUM_BYTES)  # reserves them
    checked = content.getbuffer()[:-_CHECKSUM_BYTES]
    with complete_or_absent(os.path.join(directory, f"checkpoint-{step:012d}.npz")) as file:
        file.write(checked)
        file.write(hashlib.sha256(checked).digest())
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
            content = file.read()
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error}") from error
    if hashlib.sha256(content[:-_CHECKSUM_BYTES]).digest() != content[-_CHECKSUM_BYTES:]:
        raise CheckpointError(f"{path} is damaged: its checksum doesn't match its content")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(arrays.pop(_STATE).tobytes())


def name_variables(prefix: str, variables: Sequence[Any]) -> dict[str, Any]:
    """Keras variables by a name that is the same in every process: their index and their own name."""
    return {f"{prefix}/{index:03d}/{variable.name}": variable for index, variable in enumerate(variables)}


def assign(variables: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str) -> None:
    """Gives variables the values saved under their names.

    Raises:
      CheckpointError: names or shapes are not the same.
    """
    if set(variables) != set(arrays):
        missing, extra = sorted(set(variables) - set(arrays)), sorted(set(arrays) - set(variables))
        raise CheckpointError(f"{path} is of another agent: it lacks {missing} and has {extra}")
    for name, variable in variables.items():
        if tuple(variable.shape) != arrays[name].shape:
            raise CheckpointError(f"{path}: {name} has shape {arrays[name].shape}, needed is {tuple(variable.shape)}")
    for name, variable in variables.items():
        variable.assign(arrays[name])
