"""Short formats for numbers and durations, and tables."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"([-+]?[\d.,]+(e[-+]?\d+)?[kMG%]?|(\d+[dhms])+|-)?")


def short(number: float) -> str:
    """Format a number with three digits and a suffix: 7.51k, 12.3M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # 999,600 becomes 1M, not 1000k
            return f"{number / unit:.3g}{letter}"
    return f"{number:.0f}"


def counted(number: int, noun: str) -> str:
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


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int = 100) -> str:
    """Format a table, numbers right-aligned; where it is wider than `width` characters, texts are folded."""
    from rich.console import Console
    from rich.table import Table

    drawn, height = Table(box=None, pad_edge=False, header_style=""), max(head.count("\n") for head in heads)
    for number, head in enumerate(heads):
        is_number = all(_NUMBER.fullmatch(row[number]) for row in rows)
        lowered = "\n" * (height - head.count("\n")) + head
        drawn.add_column(lowered, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
