"""The lines that a terminal shows: as much of a terminal as our own output needs."""

import re

_PIECE = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<command>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)


def screen(output, columns):
    """The lines on the screen and those that have scrolled off it, without trailing blanks.

    Raises:
      ValueError: a control sequence that isn't known here.
    """
    lines, row, column, position = [[]], 0, 0, 0
    while position < len(output):
        piece = _PIECE.match(output, position)
        if piece is None or (piece["command"] or "m") not in "AKmhl":  # colours; the cursor shown and hidden
            raise ValueError(f"unknown sequence {output[position : position + 20]!r}")
        position = piece.end()
        text, command = piece["text"], piece["command"]
        if text == "\r":
            column = 0
        elif text == "\n":
            row += 1
        elif text:
            if column == columns:  # the terminal continues in the next line
                row, column = row + 1, 0
            lines += [[] for _ in range(row + 1 - len(lines))]
            lines[row] += [" "] * (column + 1 - len(lines[row]))
            lines[row][column] = text
            column += 1
        elif command == "A":
            row -= int(piece["numbers"] or 1)
        elif command == "K":  # 2K: the whole line
            lines[row] = []
        lines += [[] for _ in range(row + 1 - len(lines))]
    return ["".join(line).rstrip() for line in lines]
