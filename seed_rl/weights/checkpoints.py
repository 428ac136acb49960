"""Checkpoints: each an archive (see `seed_rl.system.archives`) of named arrays and JSON state.

A checkpoint is written under another name, flushed to disk and renamed: a file with a checkpoint's name is complete.
A run keeps its newest checkpoints, the best one, and if configured one per interval of environment frames.
"""

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from seed_rl.errors import UsageError
from seed_rl.experiment.saved_config import SAVED
from seed_rl.foreign import json_object, number, open_file, read_again_if_stale, short_repr
from seed_rl.reporting.metrics import EARLY, EVALUATION
from seed_rl.system.archives import Archive, BadArchive, writing
from seed_rl.system.files import complete_or_absent, explaining, files_in
from seed_rl.system.host_memory import free_host_memory

_log = logging.getLogger(__name__)

BEST = "best.npz"
"""Name of the checkpoint with the best evaluation."""
Arrays = Mapping[str, np.ndarray]
"""Values of variables by name."""
State = Mapping[str, Any]
"""JSON values, such as the counters of a run."""
_NAME = re.compile(r"checkpoint-(\d{12})\.npz")
_STATE = "counters.json"


class CheckpointError(UsageError):
    """A checkpoint that can't be used; the message names it and the reason."""


def save(
    directory: str, step: int, arrays: Arrays, state: State, keep: int, beside: Callable[[], None] = lambda: None
) -> None:
    """Write a checkpoint of `step` (learner updates) and remove the oldest beyond `keep`; see `write`.

    Later ones stay: they exist only if they are damaged, and the run has continued from an earlier one.
    """
    path = os.path.join(directory, f"checkpoint-{step:012d}.npz")
    write(path, arrays, state, beside)
    for old in [each for each in paths(directory) if each <= path][:-keep]:
        os.remove(old)


def write(path: str, arrays: Arrays, state: State, beside: Callable[[], None] = lambda: None) -> None:
    """Write a checkpoint file, or raise OSError and leave an older file of that name untouched.

    What belongs to it is written by `beside`, once the checkpoint has its space and before it has its name.
    """
    text = np.frombuffer(json.dumps(dict(state)).encode(), np.uint8)
    with complete_or_absent(path) as file:
        with writing(file) as add:
            for name, array in {_STATE: text, **arrays}.items():
                add(name, array)
        file.flush()
        os.fsync(file.fileno())
        beside()


def paths(directory: str) -> list[str]:
    """Return the newest checkpoints in a directory, oldest first."""
    return [os.path.join(directory, name) for name in files_in(directory) if _NAME.fullmatch(name)]


def newest(directory: str) -> tuple[str, dict[str, np.ndarray], dict[str, Any]] | None:
    """Read the newest readable checkpoint: path, arrays, state; None without any. Raises if all are damaged."""
    damaged: list[CheckpointError] = []
    for path in reversed(paths(directory)):
        try:
            found = (path, *load(path))
        except CheckpointError as error:
            damaged.append(error)
        else:
            for each in damaged:
                _log.warning("%s", each)
            return found
    if damaged:
        raise damaged[0]
    return None


def find(logdir: str, name: str | None) -> str:
    """Return the path of a checkpoint of a run, or raise CheckpointError.

    The name is `best`, `newest` or None, a number of updates, the name of a file in its `checkpoints`, or a path.
    """
    directory = os.path.join(logdir, "checkpoints")
    if not os.path.exists(logdir):
        raise CheckpointError(f"there is no {logdir}")
    if not os.path.exists(settings := os.path.join(logdir, SAVED)):
        raise CheckpointError(f"{logdir} is not the log directory of a run: {settings} is missing")
    if name in (None, "newest"):
        if found := paths(directory):
            return found[-1]
        when = "after Logs.checkpoint_interval_s seconds of training, or when it ends after an update"
        raise CheckpointError(f"{logdir} has no checkpoint yet: the first is written {when}")
    if name == "best" and BEST not in files_in(directory):
        when = f"after {EARLY} evaluation episodes of each of Actors.num_eval_envs, and {EVALUATION} more"
        raise CheckpointError(f"{logdir} has no best checkpoint: the first is written {when}")
    name = file_name(name)
    if not os.path.dirname(name) and not os.path.exists(name):
        name = os.path.join(directory, name)
    if not os.path.exists(name):
        there = ", ".join(os.path.basename(path) for path in paths(directory)[-3:]) or "no checkpoint"
        raise CheckpointError(f"{name} can't be read: No such file or directory; the newest of the run: {there}")
    return name


def file_name(name: str | None) -> str:
    """Return the name, or for the newest the pattern, of the file that holds a checkpoint; see `find`."""
    if name in (None, "newest"):
        return "checkpoint-*.npz"
    if re.fullmatch("[0-9]{1,12}", name):
        return f"checkpoint-{int(name):012d}.npz"
    return BEST if name == "best" else name


def chosen(logdir: str, name: str | None) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint that `find` finds, or without a name the newest readable one: path, arrays, state."""
    path = find(logdir, name)
    return (newest(os.path.dirname(path)) if name in (None, "newest") else None) or (path, *load(path))


@contextlib.contextmanager
def opening(path: str) -> Iterator[IO[bytes]]:
    """Open a file of weights; raise CheckpointError if it exceeds memory or can't be read, now or in the context."""
    with (
        explaining(CheckpointError, f"{path} is damaged", BadArchive),
        explaining(CheckpointError, f"{path} can't be read"),
        open_file(path) as file,
    ):
        if (size := os.path.getsize(path)) > free_host_memory():
            raise CheckpointError(f"{path} has {size:,} bytes, more than there is free memory")
        file.read(1)  # reports an error that zipfile would take for another kind of file
        file.seek(0)
        yield file


@read_again_if_stale
def load(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read arrays and state of one checkpoint file, or raise CheckpointError."""
    with opening(path) as file:
        arrays = {_without_counters(name): array for name, array in Archive(file).items()}
    if _STATE not in arrays:
        raise CheckpointError(f"{path} is not a checkpoint: {_STATE} is missing")
    with explaining(CheckpointError, f"{path} is not a checkpoint: its {_STATE} can't be read", ValueError):
        return arrays, json_object(arrays.pop(_STATE).tobytes())


def env_frames(state: State, path: str) -> int:
    """Return the environment frames that the weights of a checkpoint were trained on, or raise CheckpointError."""
    with explaining(CheckpointError, f"{path} is not a checkpoint of a run", ValueError, OverflowError):
        return int(number(state.get("counters"), "env_frames"))


def name_variables(prefix: str, variables: Sequence[Any]) -> dict[str, Any]:
    """Map Keras variables by a name that is the same in every process: their index and their own name."""
    named = ((f"{prefix}/{index:03d}/{variable.name}", variable) for index, variable in enumerate(variables))
    return {_without_counters(name): variable for name, variable in named}


def _without_counters(name: str) -> str:
    """Leave out what Keras appends where a process has several layers without names: `dense_2` is `dense`."""
    return re.sub(r"_\d+(?=_|$)", "", name)


def weights_in(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return those arrays of a checkpoint that are values of the agent's variables."""
    return {name: array for name, array in arrays.items() if name.startswith("agent/")}


def variables_for(agent: Any, weights: Collection[str] = ()) -> dict[str, Any]:
    """Map by name an `Agent`'s variables, of its `copies` only those for which there are weights."""
    left_out = {id(variable) for variable in agent.copies}
    named = name_variables("agent", agent.variables)
    return {name: variable for name, variable in named.items() if name in weights or id(variable) not in left_out}


def assign(variables: Mapping[str, Any], arrays: Arrays, path: str) -> None:
    """Assign to variables the values saved under their names, after a `check`."""
    check(variables, arrays, path)
    for name, variable in variables.items():
        variable.assign(arrays[name])


def check(variables: Mapping[str, Any], arrays: Arrays, path: str) -> None:
    """Raise CheckpointError if arrays don't have the names, shapes and kinds of numbers of the variables."""
    if set(variables) != set(arrays):
        missing, extra = sorted(set(variables) - set(arrays)), sorted(set(arrays) - set(variables))
        raise CheckpointError(f"{path} is of another agent: it lacks {short_repr(missing)} and has {short_repr(extra)}")
    for name, variable in variables.items():
        if not np.can_cast(arrays[name].dtype, variable.dtype, "same_kind"):
            raise CheckpointError(f"{path}: {name} holds {arrays[name].dtype}, needed is {variable.dtype}")
        if tuple(variable.shape) != arrays[name].shape:
            raise CheckpointError(f"{path}: {name} has shape {arrays[name].shape}, needed is {tuple(variable.shape)}")
