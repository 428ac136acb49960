"""Handling of untrusted or foreign input: JSON, file names, text for a terminal, errors of other people's code."""

import errno
import functools
import json
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeVar, cast

_Reader = TypeVar("_Reader", bound=Callable[..., Any])
_MAX_OBJECT = 1 << 20  # bytes of a file
_MAX_TEXT = 1 << 24  # of JSON, which may take 25 times as much memory
_MAX_WORDS = 200  # characters of a value in a message
_MAX_REASON = 500  # characters of an error's text


def json_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object; raise ValueError, on one line, if the text is anything else or longer than 16 million."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"expected at most {_MAX_TEXT:,} bytes, got {len(text):,}")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected an object {{...}}, got {short_repr(found)}")
    return found


class JsonObject:
    """A constraint of a setting, as in `settings`: it is the text of a JSON object."""

    def check(self, name: str, value: str) -> None:
        """Raise ValueError unless the value is one."""
        try:
            json_object(value)
        except ValueError as error:
            raise ValueError(f"{name} must be a JSON object, got {short_repr(value)}: {error}") from error


def open_file(path: str) -> IO[bytes]:
    """Open a file for reading; a pipe or device, on which a reader may wait for ever, raises FileNotFoundError."""
    if not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return open(path, "rb")


def read_again_if_stale(read: _Reader) -> _Reader:
    """Make a reader begin again, once, if a file was replaced while it was read from a network file system (ESTALE)."""

    @functools.wraps(read)
    def read_twice(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except Exception as error:
            cause: BaseException | None = error
            while cause is not None and getattr(cause, "errno", None) != errno.ESTALE:
                cause = cause.__cause__
            if cause is None:
                raise
        return read(*arguments)

    return cast(_Reader, read_twice)


@read_again_if_stale
def read_small(path: str) -> bytes:
    """Read a file; raise OSError, or ValueError if it has more than a mebibyte."""
    with open_file(path) as file:
        text = file.read(_MAX_OBJECT + 1)
    if len(text) > _MAX_OBJECT:
        raise ValueError(f"expected at most {_MAX_OBJECT:,} bytes, got more")
    return text


def read_json_object(path: str) -> dict[str, Any]:
    """Read a JSON object; raise OSError, or ValueError if the file has more than a mebibyte or something else."""
    return json_object(read_small(path))


def number(values: Any, name: str) -> float:
    """Look up a number in a JSON object: a float, or an int of at most 64 bits; ValueError if it is anything else."""
    value = values.get(name) if isinstance(values, Mapping) else None
    if type(value) is float or (type(value) is int and abs(value) < 2**63):
        return value
    raise ValueError(f"expected a number as {short_repr(name)}, got {short_repr(value)}")


def short_repr(value: Any) -> str:
    """The `repr` of a value, on one line, cut off after 200 characters."""
    text = repr(value)
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]}..."


def kind_of(value: Any) -> str:
    """The dtype and shape of an array or tensor, such as `float32[3, 2]`; the `short_repr` of anything else."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype.name}{[*value.shape]}"
    return short_repr(value)


def enumeration(phrases: Sequence[str], most: int = 4) -> str:
    """The first of some phrases, divided by semicolons, and the number of the others."""
    return "; ".join([*phrases[:most], *([f"and {len(phrases) - most} more"] if phrases[most:] else [])])


def printable(text: str) -> str:
    """Escape what is not printable in a text; indent lines after the first, so that they can't pass for messages."""
    lines = ("".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line) for line in text.split("\n"))
    return "\n  ".join(lines)


def without_gin(error: BaseException) -> str:
    """The text of an error on one line, with the file and line that gin appends to it, but nothing else of that."""
    text = " ".join(str(error).split())
    place = re.search(r' In file "([^"]+)", line (\d+)', text)
    text = re.split(r" No values supplied| In (call to configurable|bindings string|file )| in config string", text)[0]
    return f"{text} ({place[1]}, line {place[2]})" if place and place[1] != "None" else text


def description_of(error: BaseException) -> str:
    """One line that describes an error raised by foreign code: its type, message and innermost source line."""
    text, name = " ".join(str(error).split())[:_MAX_REASON], type(error).__name__
    said = f"{name}: {text}" if text else name
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return said
    last = frames[-1]
    return f"{said} ({os.path.basename(last.filename)}, line {last.lineno}: {last.line or last.name})"
