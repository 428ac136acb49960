"""A connection to another learner host: JSON behind its length."""

from __future__ import annotations

import contextlib
import json
import multiprocessing.connection
import socket
import struct
from collections.abc import Collection
from typing import Any

_SILENT_SECONDS = 10  # a host that has lost power, or its network, is noticed after about so long
_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 20


class Gone(Exception):
    """The process at the other end has ended, can't be reached, or is no learner."""

    def __init__(self, peer: Peer):
        """
        Args:
          peer: the connection to it.
        """
        super().__init__()
        self.peer = peer


class Peer:
    """The other end of a connection. Used by one thread, but for `hang_up`."""

    def __init__(self, connection: socket.socket):
        """
        Args:
          connection: is this object's from now on.
        """
        self._socket = connection
        self._received = bytearray()
        connection.settimeout(_SILENT_SECONDS)
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_SECONDS // 2),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _SILENT_SECONDS // 2),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENT_SECONDS),
        ):
            connection.setsockopt(level, option, value)

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """
        Raises:
          Gone: it can't be sent.
        """
        data = json.dumps(message).encode()
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise Gone(self) from error

    def next_received(self) -> Any:
        """The next message of those that `receive` has brought; None if it isn't complete.

        Raises:
          Gone: what came is no message.
        """
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
        if end > _LONGEST:
            raise Gone(self)
        if len(self._received) < end:
            return None
        text = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        try:
            return json.loads(text)
        except ValueError as error:
            raise Gone(self) from error

    def receive(self) -> None:
        """Takes what has come; waits if there is nothing.

        Raises:
          Gone: nothing will come any more.
        """
        try:
            data = self._socket.recv(1 << 16)
        except OSError as error:
            raise Gone(self) from error
        if not data:
            raise Gone(self)
        self._received += data

    def hang_up(self) -> None:
        """Ends the connection, for both sides."""
        with contextlib.suppress(OSError):  # the other side may have done so
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection; to be called in any case."""
        self._socket.close()


def receive_any(peers: Collection[Peer], timeout: float) -> tuple[Peer, Any] | None:
    """The next message of any of them, and whose it is; None if none is complete within about `timeout` seconds.

    Raises:
      Gone: one of them is.
    """
    found = _next_of(peers)
    if found is None:
        by_number = {peer.fileno(): peer for peer in peers}
        for number in by_number.keys() & set(multiprocessing.connection.wait(by_number, timeout)):
            by_number[number].receive()
        found = _next_of(peers)
    return found


def _next_of(peers: Collection[Peer]) -> tuple[Peer, Any] | None:
    for peer in peers:
        message = peer.next_received()
        if message is not None:
            return peer, message
    return None
