"""How a process ended, in one line for people."""

from __future__ import annotations

import re
import signal

_AT_MOST = 500  # characters
_LOOKED_AT = 64 * 1024  # bytes, at the end of what it wrote
# `seed_rl train: ...` is how commands say why they end; `seed_rl.x.Error: ...` ends the traceback of an error of ours.
_SENTENCE = re.compile(r"seed_rl(?: \w+|[\w.]*): (?P<sentence>.+)")
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d [DIWEC] ")


def how_it_ended(code: int, path: str, begin: int = 0) -> str:
    """Why a process ended, as far as it said so, and otherwise how.

    Args:
      code: its exit code as `subprocess` gives it: negative is the signal that killed it.
      path: of the file with what it wrote.
      begin: where in the file that begins, bytes.
    """
    words = last_words(path, begin)
    if code >= 0:
        return words or f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    killed = f"killed by {names.get(-code, f'signal {-code}')}"
    return f"{killed}: {words}" if words else killed


def last_words(path: str, begin: int = 0) -> str:
    """The sentence with which a process of ours ended, or the last line that it wrote; "" if that is a line of its log.

    Args:
      path: of the file with what it wrote.
      begin: where in the file that begins, bytes.
    """
    with open(path, "rb") as file:
        end = file.seek(0, 2)
        file.seek(max(begin, end - _LOOKED_AT))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    for line in reversed(lines):
        found = _SENTENCE.fullmatch(line)
        if found:
            return found["sentence"][:_AT_MOST]
    if not lines or _LOG_LINE.match(lines[-1]):
        return ""
    return lines[-1][:_AT_MOST]
