"""Tables for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_WIDEST = 100


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under their headers, each column as wide as it must be.

    A column of numbers is aligned on the right, any other on the left.

    Args:
      headers: of the columns; one may have several lines.
      rows: cells of each row.
    """
    split = [header.split("\n") for header in headers]
    height = max(len(lines) for lines in split)
    above = [[""] * (height - len(lines)) + lines for lines in split]
    head = [[lines[line] for lines in above] for line in range(height)]
    cells = [[row[column] for row in rows] for column in range(len(headers))]
    widths = [max(map(len, [*split[column], *cells[column]])) for column in range(len(headers))]
    to_the_right = [all(_is_number(cell) for cell in cells[column]) for column in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_the_right, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([*map(line, head), "  ".join("-" * width for width in widths), *map(line, rows)])


def sentence(text: str) -> str:
    """A sentence, in several lines if it is longer than a table may be wide."""
    return textwrap.fill(text, _WIDEST, subsequent_indent="  ")


def number(value: float, digits: int = 3) -> str:
    """With thousands separated, and `digits` significant digits at the least: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - _magnitude(value))
    return f"{value:,.{decimals}f}"


def _magnitude(value: float) -> int:
    """The power of ten of the first digit, as it is after rounding."""
    return int(f"{value:.2e}".partition("e")[2])


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.strip("-+").replace(",", "").replace(".", "").rstrip("%").isdigit()
