"""What stops a benchmark, told to whoever started it in a sentence."""

from __future__ import annotations


class BadArguments(Exception):
    """Something is wrong with the command line; the message is one sentence."""


class MeasurementFailed(RuntimeError):
    """What was to be measured has failed, or didn't come; the message is one sentence."""


def last_words(text: str, longest: int = 500) -> str:
    """The last line of what a program printed: its error in a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:longest] if lines else "it printed nothing"
