"""Short formats for numbers and durations, and tables."""

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

# A cell of a column of numbers: a number with its unit, a duration, or nothing.
_NUMBER = re.compile(r"([-+]?[\d.,]+(e[-+]?\d+)?[kMG%]?|(\d+[dhms])+|-)?")
_MAX_WIDTH = 100  # characters of a table


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
    """Format a table with a rule below the heads, which may have several lines, and columns of numbers right-aligned.

    If it is wider than 100 characters, the column with the longest text is folded.
    """
    tops = [head.split("\n") for head in heads]
    texts = [n for n in range(len(heads)) if not all(_NUMBER.fullmatch(row[n]) for row in rows)]
    widths = [max(map(len, [*top, *(row[n] for row in rows)])) for n, top in enumerate(tops)]
    if texts and (excess := sum(widths) + 2 * (len(widths) - 1) - _MAX_WIDTH) > 0:
        longest = max(texts, key=widths.__getitem__)
        widths[longest] = max(1, *map(len, tops[longest]), widths[longest] - excess)

    def lines(cells: Iterable[Sequence[str]]) -> Iterator[str]:
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            aligned = (f"{part:{'<' if n in texts else '>'}{widths[n]}}" for n, part in enumerate(parts))
            yield "  ".join(aligned).rstrip()

    table = [*lines(top[::-1] for top in tops)][::-1]  # several lines end at the rule
    table += lines(["-" * each] for each in widths)
    for row in rows:
        table += lines(textwrap.wrap(cell, own) or [""] for cell, own in zip(row, widths, strict=True))
    return "\n".join(table)
