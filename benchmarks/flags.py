"""Flags that benchmarks have in common.

Defaults of lists are written as the flag is, "1,8,64": argparse parses them, and help shows them so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any, TypeVar

T = TypeVar("T", int, float)

_EXPERIMENT = "atari/vtrace_pong"


def add_timing(parser: argparse.ArgumentParser, seconds: float, repeats: int = 3) -> None:
    """`--seconds` and `--repeats`, with their defaults."""
    parser.add_argument(
        "--seconds", type=positive, default=seconds, help="for each measured value, all repeats together"
    )
    parser.add_argument("--repeats", type=count, default=repeats, help="measurements of each value; the median counts")


class Append(argparse.Action):
    """Like "append", but the first value takes the place of the default, such as that of a smoke run."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Adds a value."""
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [values] if given is self.default else [*given, values])


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """`--gin_file` and `--gin_param`; see `gin_files`."""
    parser.add_argument("--gin_file", action=Append, help=f"the experiment, in place of {_EXPERIMENT}")
    parser.add_argument("--gin_param", action=Append, default=[], help="a gin binding for it")


def gin_files(arguments: argparse.Namespace) -> list[str]:
    """What `--gin_file` says, or its default."""
    return arguments.gin_file or [_EXPERIMENT]


def positive(text: str) -> float:
    """A number above 0."""
    value = _parsed(float, text, "a number")
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return value


def not_negative(text: str) -> float:
    """A number from 0 on."""
    value = _parsed(float, text, "a number")
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return value


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = _parsed(float, text, "a number")
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, got {text}")
    return value


def percentages(text: str) -> list[float]:
    """Percentages above 0 and up to 100, separated by commas."""
    values = [positive(part) for part in text.split(",")]
    if max(values) > 100:
        raise argparse.ArgumentTypeError(f"must be 100 at the most, got {text}")
    return values


def not_negatives(text: str) -> list[float]:
    """Numbers from 0 on, separated by commas."""
    return [not_negative(part) for part in text.split(",")]


def count(text: str) -> int:
    """A whole number from 1 on."""
    value = _parsed(int, text, "a whole number")
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def _parsed(kind: Callable[[str], T], text: str, what: str) -> T:
    try:
        return kind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}") from error


def counts(text: str) -> list[int]:
    """Whole numbers from 1 on, separated by commas."""
    return [count(part) for part in text.split(",")]


def some_of(choices: Collection[str]) -> Callable[[str], list[str]]:
    """The type of a flag that takes some of these names, separated by commas."""

    def names(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; there are: {', '.join(choices)}")
        return chosen

    return names
