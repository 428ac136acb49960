"""The first difference between two journals."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seed_rl.journal.segments import different

_QUANTITIES = {
    "run": "the start of a learner process",
    "join": "the environments that an actor got",
    "act": "the members of an inference batch",
    "weights": "the members of an inference batch",
    "digest": "the digests of the weights",
}


def difference(first: Sequence[str], second: Sequence[str]) -> str:
    """Describe the first difference between the lines of two journals in a sentence; "" if they are equal.

    Settings and machines are compared as well, but differences there do not end the comparison.
    """
    first, second = _comparable(first, second), _comparable(second, first)
    notes: list[str] = []
    names: Sequence[str] = []
    updates = -1
    for one, other in itertools.zip_longest(first, second, fillvalue=""):
        if one.startswith("run ") and other.startswith("run "):
            start, other_start = (json.loads(line.removeprefix("run ")) for line in (one, other))
            notes = notes or _changed(_flat(start), _flat(other_start))
            updates, names = int(start["updates"]) - 1, start["variables"]
            if (start["updates"], start["frames"]) == (other_start["updates"], other_start["frames"]):
                continue
        updates += (one or other) == "weights"
        if one != other:
            sentence = f"after {max(0, updates)} updates, {_quantity(one, other, names)}"
            return "; ".join([sentence, *notes])
    return "; ".join(["all of it is equal", *notes]) if notes else ""


def _comparable(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Leave out digests of which the other journal has none: some are written with checkpoints, by the clock."""
    both = {key for key, _ in _keyed(others)}
    return [line for key, line in _keyed(lines) if key is None or key in both]


def _keyed(lines: Sequence[str]) -> Iterator[tuple[tuple[int, str] | None, str]]:
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


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{name} ") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} is {one.get(name)!r} and {other.get(name)!r}"
        for name in {**one, **other}
        if one.get(name) != other.get(name) and name not in ("updates", "frames")
    ]
