"""Short formats for numbers and durations, and tables."""

import re
from collections.abc import Sequence

# A cell of a column of numbers: a number with its unit, a duration, or nothing.
_NUMBER = re.compile(r"([-+]?[\d.,]+(e[-+]?\d+)?[kMG%]?|(\d+[dhms])+|-)?")


def short(number: float) -> str:
    """Format a number with three digits and a suffix: 7.51k, 12.3M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # 999,600 becomes 1M, not 1000k
            return f"{number / unit:.3g}{letter}"
    return f"{number:.0f}"


def quantity(number: int, noun: str) -> str:
    """Format a number of things: 1 line, 2 lines."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Format a duration in seconds as 3d04h, 1h05m, 3m20s or 20s."""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table with a rule below the heads, which may have several lines; numbers are aligned to the right."""
    tops = [head.split("\n") for head in heads]
    tallest = max(map(len, tops))
    above = zip(*([""] * (tallest - len(top)) + top for top in tops), strict=True)
    widths = [max(map(len, [*top, *(row[n] for row in rows)])) for n, top in enumerate(tops)]
    aligned = [
        f"{'>' if all(_NUMBER.fullmatch(row[n]) for row in rows) else '<'}{width}" for n, width in enumerate(widths)
    ]
    lines = [*above, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(map(format, line, aligned)).rstrip() for line in lines)
