"""What others may have written: JSON within limits, names of files, texts for a terminal, errors of their code."""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Mapping
from typing import Any

_MAX_OBJECT = 1 << 20  # bytes
_MAX_WORDS = 200  # characters of a value in a message
_MAX_REASON = 500  # characters of an error's text


def json_object(text: str | bytes) -> dict[str, Any]:
    """The object of a JSON text.

    Raises:
      ValueError: it is another kind of text, in one line.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not text in UTF-8") from error
    if not isinstance(found, dict):
        raise ValueError(f"an object {{...}} is expected, got {shortened(found)}")
    return found


def read_json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file of at most a mebibyte.

    Raises:
      OSError, ValueError: it can't be read, or holds something else.
    """
    with open(path, "rb") as file:
        text = file.read(_MAX_OBJECT + 1)
    if len(text) > _MAX_OBJECT:
        raise ValueError(f"at most {_MAX_OBJECT:,} bytes are expected, it has more")
    return json_object(text)


def number(values: Any, name: str) -> float:
    """A number of a JSON object: a float, or an int of at most 64 bits.

    Raises:
      ValueError: there is something else, or nothing.
    """
    value = values.get(name) if isinstance(values, Mapping) else None
    if type(value) is float or (type(value) is int and abs(value) < 2**63):
        return value
    raise ValueError(f"a number is expected as {shortened(name)}, got {shortened(value)}")


def shortened(value: Any) -> str:
    """A value as Python writes it, on one line and at most 200 characters long."""
    text = repr(value)
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}..."


def printable(text: str) -> str:
    """A text without control characters: what a terminal would not print is escaped, line ends excepted.

    Further lines are indented, so that none of them passes for a line of its own.
    """
    lines = ("".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line) for line in text.split("\n"))
    return "\n  ".join(lines)


def relative_name(name: str) -> str:
    """The name of a file inside of a directory, checked: it may not lead out of it.

    Raises:
      ValueError: it may.
    """
    if re.search(r"(^|/)\.{0,2}(/|$)|\0", name):
        raise ValueError(f"names inside of the directory are expected, got {shortened(name)}")
    return name


def described(error: BaseException) -> str:
    """An error that foreign code has raised, in one line: its kind, its text, and the place, as in the traceback."""
    text, name = " ".join(str(error).split())[:_MAX_REASON], type(error).__name__
    said = f"{name}: {text}" if text else name
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return said
    last = frames[-1]
    return f"{said} ({os.path.basename(last.filename)}, line {last.lineno}: {last.line or last.name})"
