"""The content of a journal: a segment for each process that was the learner of the run."""

import array
import bisect
import dataclasses
import functools
import hashlib
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from seed_rl.errors import Failure
from seed_rl.extras.repeating.file import JournalError, Lines
from seed_rl.foreign import json_object, shortened
from seed_rl.specs import GroupLease

WEIGHTS = ()
"""Takes the place of a batch where acting gets new weights."""
_MOST_DEVICES = 256
_DIGEST = re.compile(r"[0-9a-f]{16} (?:[0-9a-f]{4})+")
_MOST_LETTERS = 100  # of a variable's name in a message


class Differs(Failure):
    """A replay that came out differently; the message names the first difference."""


@dataclasses.dataclass
class Segment:
    """What one learner process did, up to the checkpoint from which the next one continues."""

    start: dict[str, Any]
    """Description of the process: settings, versions, machine, `updates` and `frames` before it, and `variables`."""
    joins: list[tuple[GroupLease, ...]] = dataclasses.field(default_factory=list)
    """Groups of each actor, in the order in which they joined."""
    owners: list[int] = dataclasses.field(default_factory=list)
    """Index in `joins` by the number of a group."""
    needed_after: dict[int, int] = dataclasses.field(default_factory=dict)
    """Value of `refreshes` when each actor acted for the first time, by its index in `joins`, in that order."""
    acts: list[int] = dataclasses.field(default_factory=list)
    """How often groups of an actor acted, by its index in `joins`."""
    batches: dict[int, "array.array[int]"] = dataclasses.field(default_factory=dict)
    """What `turns` yields, by inference device: `refreshes`, number of groups, and their numbers for each batch."""
    refreshes: int = 0
    """How often acting got weights, the first time before the first update."""
    digests: dict[int, str] = dataclasses.field(default_factory=dict)
    """`digest` of all variables by the number of updates behind them."""
    end: tuple[int, int | None] = (0, None)
    """Number of updates, and of frames where it matters, at the end."""
    _turns: int = 0
    _first: list[int] = dataclasses.field(default_factory=list)  # turn of each actor, in the order of `needed_after`
    _last: list[int] = dataclasses.field(default_factory=list)  # turn of each actor, in the order of `joins`

    @property
    def begin(self) -> int:
        """Number of updates before the segment."""
        return self.start["updates"]  # type: ignore[no-any-return]

    def join(self, groups: tuple[GroupLease, ...]) -> None:
        """Add an actor with these groups."""
        ids = [env_id for group in groups for env_id in group.env_ids]
        sizes = {len(group.env_ids) for group in groups}
        numbers = [*ids, *(group.seed for group in groups)]
        if len(sizes) != 1 or 0 in sizes or len(set(ids)) < len(ids) or not all(0 <= n < 2**31 for n in numbers):
            raise ValueError(f"expected groups of one size, and numbers from 0 to 2^31 - 1, got {shortened(groups)}")
        self.owners += [len(self.joins)] * len(groups)
        self.acts.append(0)
        self._last.append(0)
        self.joins.append(groups)

    def act(self, device: int, *numbers: int) -> None:
        """Add a batch of an inference device, of the groups with these numbers."""
        self._turns += 1
        for number in numbers:
            actor = self.owners[number]
            if actor not in self.needed_after:
                self.needed_after[actor] = self.refreshes
                self._first.append(self._turns)
            self.acts[actor] += 1
            self._last[actor] = self._turns
        self.batches.setdefault(device, array.array("I")).extend((self.refreshes, len(numbers), *numbers))

    @property
    def groups(self) -> list[GroupLease]:
        """Groups of all actors by the numbers that `turns` yields."""
        return [group for join in self.joins for group in join]

    @property
    def most_actors(self) -> int:
        """Number of actors that are needed at a time, from the first to the last turn of each."""
        last = sorted(self._last[actor] for actor in self.needed_after)
        return max((n - bisect.bisect_left(last, turn) for n, turn in enumerate(self._first, 1)), default=0)

    def turns(self, device: int) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the groups of each batch of an inference device, and `WEIGHTS` for new weights."""
        numbers, weights = iter(self.batches[device]), 0
        for refreshes in numbers:
            yield from itertools.repeat(WEIGHTS, refreshes - weights)
            weights = refreshes
            yield tuple(itertools.islice(numbers, next(numbers)))
        yield from itertools.repeat(WEIGHTS, self.refreshes - weights)


def load(path: str) -> list[Segment]:
    """Read a journal.

    Raises:
      JournalError: it is missing, damaged or not understood.
    """
    segments: list[Segment] = []
    for number, line in enumerate(Lines(path)):
        try:
            _add(segments, line)
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError, RecursionError) as error:
            raise JournalError(f"line {number} of {path} is not understood: {shortened(error)}") from error
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        segment.end = (segment.begin + max(0, segment.refreshes - 1), None)
        if following is not None:
            segment.end = (following.begin, following.start["frames"])
    return segments


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all arrays together, and 4 of each one."""
    whole, each = hashlib.sha256(), []
    for values in arrays:
        own = hashlib.sha256(np.ascontiguousarray(values).tobytes())
        whole.update(own.digest())
        each.append(own.hexdigest()[:4])
    return f"{whole.hexdigest()[:16]} {''.join(each)}"


def different(names: Sequence[str], one: str, other: str) -> str:
    """Say which of the variables with these names differ, given their digests; all if that can't be identified."""
    (_, _, first), (_, _, second) = one.partition(" "), other.partition(" ")
    pairs = zip(names, textwrap.wrap(first, 4), textwrap.wrap(second, 4), strict=False)
    name, *others = [name for name, own, others in pairs if own != others] or names or ["a variable"]
    return f"{name[:_MOST_LETTERS]} differs" + (f", and {len(others)} more" if others else "")


def beginning(lines: Iterable[str], update: int) -> Iterator[str]:
    """Yield the lines of a journal, which are read twice, up to the weights after an update."""
    begins = [json.loads(line[4:])["updates"] for line in lines if line.startswith("run ")]
    last = max(number for number, begin in enumerate(begins, 1) if begin < update)
    left, started = update - begins[last - 1] + 1, 0  # the first weights are not of an update
    for line in lines:
        yield line
        started += line.startswith("run ")
        left -= started == last and line == "weights"
        if not left:
            return


def _add(segments: list[Segment], line: str) -> None:
    word, _, rest = line.partition(" ")
    if word == "run":
        segments.append(Segment(_start(json_object(rest.encode()))))
        return
    segment = segments[-1]
    if word == "act":
        segment.act(*_batch(rest))
    elif word == "weights":
        segment.refreshes += 1
    elif word == "join":
        segment.join(tuple(GroupLease(tuple(map(int, ids)), int(seed)) for ids, seed in json.loads(rest)))
    elif word == "digest":
        updates, _, values = rest.partition(" ")
        if not _DIGEST.fullmatch(values):
            raise ValueError(f"expected digests, got {shortened(values)}")
        segment.digests[int(updates)] = values
    else:
        raise ValueError(shortened(line))


@functools.lru_cache(2**14)
def _batch(text: str) -> tuple[int, ...]:
    """Parse the device of a batch and the numbers of its groups."""
    device, *numbers = map(int, text.split())
    if not 0 <= device < _MOST_DEVICES or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError(f"expected a device below {_MOST_DEVICES} and different groups, got {shortened(text)}")
    return device, *numbers


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
    if not all(type(name) is str for name in start["variables"]):
        raise TypeError("expected names of variables")
    return start
