"""The connection between two learner hosts."""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np

_SILENT_SECONDS = 10  # after which a host without power or network counts as gone
_LARGEST = 1 << 20  # bytes of a message


class Peer:
    """The connection to another learner host; carries JSON messages, a line each, or arrays."""

    def __init__(self, connection: socket.socket, seconds: float = _SILENT_SECONDS):
        """
        Args:
          connection: by TCP, perhaps encrypted; it is taken over.
          seconds: a peer that is silent within a message for this long counts as gone.
        """
        self._connection = connection
        connection.settimeout(seconds)
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_SECONDS // 2),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENT_SECONDS),
        ):
            connection.setsockopt(level, option, value)
        self._lines = connection.makefile("rb")

    def fileno(self) -> int:
        """Of the connection, to wait for."""
        return self._connection.fileno()

    def write(self, message: Any) -> None:
        """Sends JSON values.

        Raises:
          OSError: the other process has ended or can't be reached.
        """
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> Any:
        """Waits for the next message.

        Raises:
          OSError: the other process has ended, can't be reached, or is not a learner.
        """
        try:
            return json.loads(self._lines.readline(_LARGEST))
        except (ValueError, RecursionError) as error:
            raise ConnectionError("the connection has ended") from error

    def write_array(self, array: np.ndarray) -> None:
        """Sends the bytes of a contiguous array.

        Raises:
          OSError: as of `write`.
        """
        if array.size:
            self._connection.sendall(array.data)

    def read_array(self, array: np.ndarray) -> np.ndarray:
        """Waits for the bytes of an array, and fills the given one with them; returns it.

        Raises:
          OSError: the other process has ended or can't be reached.
        """
        if array.size and self._lines.readinto(array.data) < array.nbytes:
            raise ConnectionError("the connection has ended")
        return array

    def wait_forever(self) -> None:
        """From now on waits for a peer that neither sends nor reads, until `shutdown`."""
        self._connection.settimeout(None)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)

    def shutdown(self) -> None:
        """Ends the connection, which wakes all that wait for it; it is still to be closed."""
        # Not the method of an SSLSocket, after which a thread that reads gets the bytes undeciphered.
        socket.socket.shutdown(self._connection, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        self._lines.close()
        self._connection.close()
