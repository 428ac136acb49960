"""The first difference between two journals."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seed_rl.extras.repeating.segments import different
from seed_rl.foreign import enumerated, shortened

_MOST_NOTES = 20
_MOST_LETTERS = 100  # of a setting's name
_QUANTITIES = {
    "run": "the start of a learner process",
    "join": "the environments that an actor got",
    "act": "the members of an inference batch",
    "weights": "the members of an inference batch",
    "digest": "the digests of the weights",
}


def difference(first: Iterable[str], second: Iterable[str]) -> str:
    """Describe the first difference between the lines of two journals in a sentence; "" if they are equal.

    The lines are read twice. Settings, versions and machines are compared as well; differences there do not end it.
    """
    first, second = _comparable(first, second), _comparable(second, first)
    notes: list[str] = []
    names: Sequence[str] = []
    updates = -1
    for one, other in itertools.zip_longest(first, second, fillvalue=""):
        if one.startswith("run ") and other.startswith("run "):
            start, other_start = (json.loads(line.removeprefix("run ")) for line in (one, other))
            notes = notes or _changed(start, other_start)
            updates, names = int(start["updates"]) - 1, start["variables"]
            if (start["updates"], start["frames"]) == (other_start["updates"], other_start["frames"]):
                continue
        updates += (one or other) == "weights"
        if one != other:
            sentence = f"after {max(0, updates)} updates, {_quantity(one, other, names)}"
            return enumerated([sentence, *notes], _MOST_NOTES)
    return enumerated(["all of it is equal", *notes], _MOST_NOTES) if notes else ""


def _comparable(lines: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    """Leave out digests of which the other journal has none: some are written with checkpoints, by the clock."""
    both = {key for key, _ in _keyed(others)}
    return (line for key, line in _keyed(lines) if key is None or key in both)


def _keyed(lines: Iterable[str]) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield each line, with the number of its segment and of its updates if it is a digest."""
    segment = 0
    for line in lines:
        segment += line.startswith("run ")
        yield (segment, line.split()[1]) if line.startswith("digest ") else None, line


def _quantity(one: str, other: str, names: Sequence[str]) -> str:
    """Say what is recorded in two lines that differ."""
    if not one or not other:
        return f"the {'first' if not one else 'second'} journal ends"
    word, other_word = one.partition(" ")[0], other.partition(" ")[0]
    if word == other_word == "digest":
        return different(names, *(line.split(" ", 2)[2] for line in (one, other)))
    kinds = dict.fromkeys(_QUANTITIES.get(each, each) for each in (word, other_word))
    return f"{' and '.join(kinds)} differ: {one[:60]!r} and {other[:60]!r}"


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Describe what differs in the starts of two processes."""
    flat, other_flat = (
        {f"{part} {name}": each[part][name] for part in ("settings", "versions", "machine") for name in each[part]}
        for each in (one, other)
    )
    return [
        f"{name[:_MOST_LETTERS]} is {shortened(flat.get(name))} and {shortened(other_flat.get(name))}"
        for name in {**flat, **other_flat}
        if flat.get(name) != other_flat.get(name)
    ]
