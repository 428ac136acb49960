"""The content of a journal: a segment for each process that was the learner of the run."""

import dataclasses
import hashlib
import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from seed_rl.foreign import json_object, shortened
from seed_rl.journal.file import JournalError, read
from seed_rl.specs import GroupLease

WEIGHTS = ()
"""Takes the place of a batch where acting gets new weights."""


class Differs(Exception):
    """A replay that came out differently; the message names the first difference."""


@dataclasses.dataclass
class Segment:
    """What one learner process did, up to the checkpoint from which the next one continues."""

    start: dict[str, Any]
    """Description of the process: settings, versions, machine, `updates` and `frames` before it, and `variables`."""
    joins: list[tuple[GroupLease, ...]] = dataclasses.field(default_factory=list)
    """Groups of each actor, in the order in which they joined."""
    needed_after: dict[int, int] = dataclasses.field(default_factory=dict)
    """Value of `refreshes` when each actor acted for the first time, by its index in `joins`."""
    owners: list[int] = dataclasses.field(default_factory=list)
    """Index in `joins` by the number of a group."""
    turns: dict[int, list[tuple[int, ...]]] = dataclasses.field(default_factory=dict)
    """Numbers of the groups of each batch, and `WEIGHTS` for new weights, in order, for each inference device."""
    refreshes: int = 0
    """How often acting got weights, the first time before the first update."""
    digests: dict[int, str] = dataclasses.field(default_factory=dict)
    """`digest` of all variables by the number of updates behind them."""
    end: tuple[int, int | None] = (0, None)
    """Number of updates, and of frames where it matters, at the end."""

    @property
    def begin(self) -> int:
        """Number of updates before the segment."""
        return self.start["updates"]  # type: ignore[no-any-return]

    @property
    def groups(self) -> list[GroupLease]:
        """Groups of all actors by the numbers that `turns` has."""
        return [group for join in self.joins for group in join]


def load(path: str) -> list[Segment]:
    """Read a journal.

    Raises:
      JournalError: it is missing, damaged or not understood.
    """
    lines = read(path)
    segments: list[Segment] = []
    for number, line in enumerate(lines):
        try:
            _add(segments, line)
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError, RecursionError) as error:
            raise JournalError(f"line {number} of {path} is not understood: {error!r}") from error
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        segment.end = (segment.begin + max(0, segment.refreshes - 1), None)
        if following is not None:
            segment.end = (following.begin, following.start["frames"])
    return segments


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all arrays together, and 4 of each one."""
    whole, each = hashlib.sha256(), []
    for array in arrays:
        own = hashlib.sha256(np.ascontiguousarray(array).tobytes())
        whole.update(own.digest())
        each.append(own.hexdigest()[:4])
    return f"{whole.hexdigest()[:16]} {''.join(each)}"


def different(names: Sequence[str], one: str, other: str) -> str:
    """Say which of the variables with these names differ, given their digests; all if that can't be identified."""
    (_, _, first), (_, _, second) = one.partition(" "), other.partition(" ")
    pairs = zip(names, textwrap.wrap(first, 4), textwrap.wrap(second, 4), strict=False)
    name, *others = [name for name, own, others in pairs if own != others] or names
    return f"{name} differs" + (f", and {len(others)} more" if others else "")


def beginning(lines: Sequence[str], update: int) -> list[str]:
    """Return the lines of a journal up to the weights after an update."""
    starts = [n for n, line in enumerate(lines) if line.startswith("run ") and json.loads(line[4:])["updates"] < update]
    refreshes = update - int(json.loads(lines[starts[-1]][4:])["updates"]) + 1  # the first is not an update
    weights = [n for n, line in enumerate(lines) if line == "weights" and n > starts[-1]]
    return [*lines[: weights[refreshes - 1] + 1]]


def _add(segments: list[Segment], line: str) -> None:
    word, _, rest = line.partition(" ")
    if word == "run":
        segments.append(Segment(_start(json_object(rest.encode()))))
        return
    segment = segments[-1]
    if word == "act":
        device, *numbers = map(int, rest.split())
        owners = {segment.owners[number] for number in numbers}
        for actor in owners - segment.needed_after.keys():
            segment.needed_after[actor] = segment.refreshes
        segment.turns.setdefault(device, [WEIGHTS] * segment.refreshes).append(tuple(numbers))
    elif word == "weights":
        segment.refreshes += 1
        for turns in segment.turns.values():
            turns.append(WEIGHTS)
    elif word == "join":
        groups = tuple(GroupLease(tuple(map(int, ids)), int(seed)) for ids, seed in json.loads(rest))
        segment.owners += [len(segment.joins)] * len(groups)
        segment.joins.append(groups)
    elif word == "digest":
        updates, _, values = rest.partition(" ")
        segment.digests[int(updates)] = values
    else:
        raise ValueError(shortened(line))


def _start(start: dict[str, Any]) -> dict[str, Any]:
    """Check the description of a process as far as others rely on it."""
    machine, numbers = start["machine"], [start["updates"], start["frames"], start["machine"]["threads"]]
    if not all(type(each) is int and 0 <= each < 2**62 for each in numbers) or not 1 <= machine["threads"] <= 4096:
        raise ValueError(f"updates, frames and threads are {numbers}")
    kinds = (
        (machine["processor"], str),
        (start["settings"], dict),
        (start["versions"], dict),
        (start["variables"], list),
    )
    for values, kind in kinds:
        if type(values) is not kind:
            raise TypeError(f"expected a {kind.__name__}, got {shortened(values)}")
    return start
