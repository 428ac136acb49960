"""Types of command-line flags.

Defaults of lists have the form used on the command line, "1,8,64": argparse parses them, and help shows this form.
"""

import argparse
from collections.abc import Callable, Collection
from typing import TypeVar

from seed_rl.settings import whole_number

T = TypeVar("T", int, float)
V = TypeVar("V")


def at_least(minimum: T) -> Callable[[str], T]:
    """Return a parser for numbers of the type of `minimum` that are at least `minimum`."""
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


def listed(parse: Callable[[str], V]) -> Callable[[str], list[V]]:
    return lambda text: [parse(part) for part in text.split(",")]


counts = listed(count)


def frames(text: str) -> int:
    """Parse a positive whole number, which may have the form 5M or 300k."""
    try:
        return count(str(whole_number(text)))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, got {text!r}") from error


def some_of(choices: Collection[str]) -> Callable[[str], list[str]]:
    """Return a parser for names from a collection, separated by commas."""

    def parse(name: str) -> str:
        if name not in choices:
            raise argparse.ArgumentTypeError(f"unknown name {name!r}; expected {', '.join(choices)}")
        return name

    return listed(parse)


def add_timing(parser: argparse.ArgumentParser, default_seconds: float) -> None:
    parser.add_argument("--seconds", type=seconds, default=default_seconds, help="total duration of all repeats")
    parser.add_argument("--repeats", type=count, default=3, help="measurements; the table shows the median")
