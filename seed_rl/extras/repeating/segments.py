"""The content of a journal: a segment for each process that was the learner of the run."""

import array
import collections
import functools
import hashlib
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.errors import Failure
from seed_rl.extras.repeating.file import JournalError, read
from seed_rl.foreign import enumeration, json_object, short_repr
from seed_rl.specs import GroupLease

WEIGHTS = ()  # takes the place of a batch where acting gets new weights
_MOST_DEVICES = 256
_MOST_BUILT = 2**29  # bytes of memory, as estimated, for what is built from lines other than batches and weights
_PER_LINE, _PER_LETTER = 1000, 25  # such bytes; a digest takes one per letter
_LONGEST_KEPT = 200  # letters of a batch that is parsed once
_DIGEST = re.compile(r"[0-9a-f]{16} (?:[0-9a-f]{4})+")
_MOST_LETTERS = 100  # of the name of a variable or a setting in a message
_MOST_NOTES = 20  # in a message


class Differs(Failure):
    """A replay that came out differently; the message names the first difference."""


class Segment:
    """What one learner process did, up to the checkpoint from which the next one continues."""

    def __init__(self, start: dict[str, Any]):
        """Begin with a process: settings, versions, machine, `updates` and `frames` before it, and `variables`."""
        self.start = start
        self.end: tuple[int, int | None] = (0, None)  # number of updates, and of frames where it matters
        self.groups: list[GroupLease] = []  # of all actors, by number
        self.owners: list[int] = []  # index in `joins` by the number of a group
        self.joins: list[tuple[GroupLease, ...]] = []  # groups of each actor, in the order in which they joined
        self.needed_after: dict[int, int] = {}  # `refreshes` when each actor first acted, by index, in that order
        self.acts: collections.Counter[int] = collections.Counter()  # how often an actor's groups acted, by its index
        self.batches: dict[int, array.array[int]] = {}  # by device: `refreshes`, number of groups, and these, for each
        self.refreshes = 0  # how often acting got weights, the first time before the first update
        self.digests: dict[int, str] = {}  # of all variables, by the number of updates behind them
        self._turns = 0
        self._spans: dict[int, list[int]] = {}  # first and last turn of each actor

    @property
    def begin(self) -> int:
        """Number of updates before the segment."""
        return self.start["updates"]  # type: ignore[no-any-return]

    def join(self, groups: tuple[GroupLease, ...]) -> None:
        ids = [env_id for group in groups for env_id in group.env_ids]
        sizes = {len(group.env_ids) for group in groups}
        numbers = [*ids, *(group.seed for group in groups)]
        if len(sizes) != 1 or 0 in sizes or len(set(ids)) < len(ids) or not all(0 <= n < 2**31 for n in numbers):
            raise ValueError(f"expected groups of one size, and numbers from 0 to 2^31 - 1, got {short_repr(groups)}")
        self.owners += [len(self.joins)] * len(groups)
        self.joins.append(groups)
        self.groups += groups

    def act(self, device: int, *numbers: int) -> None:
        """Add a batch of an inference device, of the groups with these numbers."""
        self._turns += 1
        for actor in [self.owners[number] for number in numbers]:
            self.needed_after.setdefault(actor, self.refreshes)
            self._spans.setdefault(actor, [self._turns, 0])[1] = self._turns
            self.acts[actor] += 1
        self.batches.setdefault(device, array.array("I")).extend((self.refreshes, len(numbers), *numbers))

    @property
    def most_actors(self) -> int:
        """Number of actors that are needed at a time, from the first to the last turn of each."""
        changes = sorted(change for first, last in self._spans.values() for change in ((first, 1), (last + 1, -1)))
        return max(itertools.accumulate(change for _, change in changes), default=0)

    def turns(self, device: int) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the groups of each batch of an inference device, and `WEIGHTS` for new weights."""
        numbers, weights = iter(self.batches.get(device, ())), 0
        for refreshes in numbers:
            yield from itertools.repeat(WEIGHTS, refreshes - weights)
            weights = refreshes
            yield tuple(itertools.islice(numbers, next(numbers)))
        yield from itertools.repeat(WEIGHTS, self.refreshes - weights)


def load(path: str) -> list[Segment]:
    """Read a journal, or raise a JournalError: it is missing, damaged or not understood."""
    segments: list[Segment] = []
    left = _MOST_BUILT
    for number, line in enumerate(read(path)):
        if not line.startswith(("act ", "weights")):
            left -= _PER_LINE + len(line) * (1 if line.startswith("digest ") else _PER_LETTER)
            if left < 0:
                raise JournalError(f"learners, actors and digests in {path} need more than {_MOST_BUILT:,} bytes")
        try:
            _add(segments, line)
        except MemoryError:
            raise
        except Exception as error:
            raise JournalError(f"line {number} of {path} is not understood: {short_repr(error)}") from error
    for segment, following in itertools.pairwise(segments):
        segment.end = (following.begin, following.start["frames"])
    last = segments[-1]
    last.end = (last.begin + max(0, last.refreshes - 1), None)
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
    pairs = zip(names, *(textwrap.wrap(each.partition(" ")[2], 4) for each in (one, other)), strict=False)
    name, *others = [name for name, own, others in pairs if own != others] or names or ["a variable"]
    return f"{name[:_MOST_LETTERS]} differs" + (f", and {len(others)} more" if others else "")


def difference(first: Sequence[Segment], second: Sequence[Segment]) -> str:
    """Describe the first difference between two journals in one line; "" if they are equal.

    Settings, versions and machines are compared as well; differences there do not end it.
    """
    notes: list[str] = []
    for one, other in itertools.zip_longest(first, second):
        if one is None or other is None:
            parted = [((one or other).begin, f"the {'first' if one is None else 'second'} journal ends")]
        else:
            notes = notes or _changed(one.start, other.start)
            parted = [*_parted(one, other)]
        if parted:
            updates, what = min(parted)
            return enumeration([f"after {updates} updates, {what}", *notes], _MOST_NOTES)
    return enumeration(["all of it is equal", *notes], _MOST_NOTES) if notes else ""


def _add(segments: list[Segment], line: str) -> None:
    word, _, rest = line.partition(" ")
    if word == "run":
        segments.append(Segment(_start(json_object(rest))))
        return
    segment = segments[-1]
    if word == "act":
        segment.act(*(_batch if len(rest) <= _LONGEST_KEPT else _batch.__wrapped__)(rest))
    elif word == "weights":
        segment.refreshes += 1
    elif word == "join":
        segment.join(tuple(GroupLease(tuple(map(int, ids)), int(seed)) for ids, seed in json.loads(rest)))
    elif word == "digest":
        updates, _, values = rest.partition(" ")
        if not _DIGEST.fullmatch(values):
            raise ValueError(f"expected digests, got {short_repr(values)}")
        segment.digests[int(updates)] = values
    else:
        raise ValueError(short_repr(line))


@functools.lru_cache(2**14)
def _batch(text: str) -> tuple[int, ...]:
    """Parse the device of a batch and the numbers of its groups."""
    device, *numbers = map(int, text.split())
    if not 0 <= device < _MOST_DEVICES or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError(f"expected a device below {_MOST_DEVICES} and different groups, got {short_repr(text)}")
    return device, *numbers


def _start(start: dict[str, Any]) -> dict[str, Any]:
    """Check the description of a process as far as others rely on it."""
    machine, names = start["machine"], start["variables"]
    numbers = [start["updates"], start["frames"], machine["threads"]]
    if not all(type(each) is int and 0 <= each < 2**62 for each in numbers) or not 1 <= machine["threads"] <= 4096:
        raise ValueError(f"updates, frames and threads are {numbers}")
    kinds = {dict: (start["settings"], start["versions"]), list: (names,), str: (machine["processor"], *names)}
    if wrong := [value for kind, values in kinds.items() for value in values if type(value) is not kind]:
        raise TypeError(f"expected settings, versions, names of variables and a processor, got {short_repr(wrong[0])}")
    return start


def _parted(one: Segment, other: Segment) -> Iterator[tuple[int, str]]:
    """Yield the update after which two processes differ, and how, for each quantity in which they do."""
    starts = [(segment.begin, segment.start["frames"]) for segment in (one, other)]
    if starts[0] != starts[1]:
        yield min(starts)[0], f"learners start at updates and frames {starts[0]} and {starts[1]}"
    for number, (own, others) in enumerate(itertools.zip_longest(one.joins, other.joins)):
        if own != others:
            first = min(each.needed_after.get(number, each.refreshes) for each in (one, other))
            yield one.begin + max(0, first - 1), f"the environments of actor {number} differ"
            break
    for device in one.batches.keys() | other.batches.keys():
        updates, names = one.begin - 1, dict[Any, str]({None: "the end", WEIGHTS: "new weights"})
        for turns in itertools.zip_longest(one.turns(device), other.turns(device)):
            if turns[0] != turns[1]:
                groups = [short_repr(names.get(turn, turn)) for turn in turns]
                yield max(0, updates), f"inference batches are of the groups {groups[0]} and {groups[1]}"
                break
            updates += turns[0] == WEIGHTS
    for updates in sorted(one.digests.keys() & other.digests.keys()):  # not those written by the clock
        if (own := one.digests[updates]) != (others := other.digests[updates]):
            yield updates, different(one.start["variables"], own, others)
            break


def _changed(*starts: Mapping[str, Any]) -> list[str]:
    parts = ("settings", "versions", "machine")
    one, other = ({f"{part} {name}": start[part][name] for part in parts for name in start[part]} for start in starts)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return [
        f"{name[:_MOST_LETTERS]} is {short_repr(one.get(name))} and {short_repr(other.get(name))}" for name in names
    ]
