"""Types of command-line flags.

Defaults of lists are written as on the command line, "1,8,64": argparse parses them, and help shows them so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import TypeVar

from seed_rl.cli.flags import whole_number

T = TypeVar("T", int, float)


def at_least(minimum: T) -> Callable[[str], T]:
    """A number of the type of `minimum`, no smaller than it."""
    kind = type(minimum)

    def parse(text: str) -> T:
        try:
            value = kind(text)
        except ValueError as error:
            kinds = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {kinds}, got {text!r}") from error
        if not value >= minimum:
            raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {text}")
        return value

    return parse


count = at_least(1)
seconds = at_least(0.001)


def counts(text: str) -> list[int]:
    """Positive whole numbers, separated by commas."""
    return [count(part) for part in text.split(",")]


def frames(text: str) -> int:
    """A positive whole number, also as 5M or 300k."""
    try:
        return count(str(whole_number(text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, got {text!r}") from error


def some_of(choices: Collection[str]) -> Callable[[str], list[str]]:
    """Names from a collection, separated by commas."""

    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; there are: {', '.join(choices)}")
        return chosen

    return parse


def add_timing(parser: argparse.ArgumentParser, default_seconds: float) -> None:
    """`--seconds` and `--repeats`."""
    parser.add_argument(
        "--seconds", type=seconds, default=default_seconds, help="for each measured value, all repeats together"
    )
    parser.add_argument("--repeats", type=count, default=3, help="of each measurement; the table shows the median")
