"""Numbers that tell the environments on a machine apart, for their ports, workers and folders."""

import contextlib
import errno
import functools
import itertools
import json
import re
import socket
from typing import Any

_INDEX = re.compile(r'"\{index(?:\+(\d+))?\}"|\{index(?:\+(\d+))?\}')


def numbered(options: str, count: int) -> tuple[list[dict[str, Any]], contextlib.ExitStack]:
    """The keyword arguments of each of `count` environments, in which their numbers replace `{index}`.

    A number is the smallest one that no other environment on this machine has at the time. A whole value `"{index}"`
    becomes an integer, and `"{index+5000}"` a port.

    Args:
      options: keyword arguments, a JSON object.
      count: number of environments.

    Returns:
      The arguments, and what holds the numbers until it is closed or this process ends.
    """
    with contextlib.ExitStack() as held:
        free = (_taken(held) if _INDEX.search(options) else 0 for _ in range(count))
        return [json.loads(_INDEX.sub(functools.partial(_plus, index), options)) for index in free], held.pop_all()


def _plus(index: int, found: re.Match[str]) -> str:
    return str(index + int(found[1] or found[2] or 0))


def _taken(held: contextlib.ExitStack) -> int:
    """Takes the smallest free number by a name of a socket, which the system frees in any case, as it frees ports."""
    for index in itertools.count():
        name = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            name.bind(f"\0seed_rl environment {index}")
            break
        except OSError as error:
            name.close()
            if error.errno != errno.EADDRINUSE:
                raise
    return index
