"""Flags that benchmarks have in common.

Defaults of lists are written as the flag is, "1,8,64": argparse parses them, and help shows them so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import TypeVar

T = TypeVar("T", int, float)


def add_timing(parser: argparse.ArgumentParser, seconds: float, repeats: int = 3) -> None:
    """`--seconds` and `--repeats`, with their defaults."""
    parser.add_argument(
        "--seconds", type=positive, default=seconds, help="for each measured value, all repeats together"
    )
    parser.add_argument("--repeats", type=count, default=repeats, help="measurements of each value; the median counts")


def positive(text: str) -> float:
    """A number above 0."""
    value = _parsed(float, text, "a number")
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return value


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
