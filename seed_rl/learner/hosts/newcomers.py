"""Connections to a learner host that have not yet shown who they are."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
import time

from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import Hosts
from seed_rl.learner.hosts.handshake import Greeted, Stranger, greet
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.hosts import HostLog

_log = logging.getLogger(__name__)

_GREETING_SECONDS = 20.0
_MOST_NEWCOMERS = 64


class Newcomers:
    """Each has a thread: none can make the others wait."""

    def __init__(self, hosts: Hosts, security: ServerSecurity, purpose: str):
        self._hosts = hosts
        self._security = security
        self._purpose = purpose
        self._connections: dict[socket.socket, float] = {}  # and when they came
        self._done: queue.SimpleQueue[Greeted | ConfigError] = queue.SimpleQueue()
        self._log = HostLog(_log, lines=3)  # anyone can cause them

    def greet(self, connection: socket.socket) -> None:
        """Begins to find out who has connected; with too many strangers, the connection is closed."""
        if len(self._connections) >= _MOST_NEWCOMERS:
            connection.close()
            return
        handle = connection.dup()  # TLS takes over the other
        self._connections[handle] = time.monotonic()
        threading.Thread(target=self._greet, args=(connection, handle), name="newcomer", daemon=True).start()

    def _greet(self, connection: socket.socket, handle: socket.socket) -> None:
        where = "an unknown address"
        found: Greeted | ConfigError | None = None
        try:
            where = str(connection.getpeername()[0])
            found = greet(connection, self._hosts, self._security, self._purpose)
        except ConfigError as error:
            found = error
        except Stranger as error:
            self._log.write(logging.WARNING, f"{where}:0", f"a connection from {where} was refused: {error}")
        except OSError as error:
            _log.debug("a connection from %s has ended: %s", where, error)
        finally:
            self._connections.pop(handle, None)
            handle.close()
        if found is not None:
            self._done.put(found)

    def take(self) -> list[Greeted]:
        """The hosts that have shown who they are since the last call.

        Raises:
          ConfigError: one of them has another list of hosts.
        """
        for connection, since in list(self._connections.items()):
            if time.monotonic() - since > _GREETING_SECONDS:
                self._end(connection)
        found = []
        while not self._done.empty():
            one = self._done.get()
            if isinstance(one, ConfigError):
                raise one
            found.append(one)
        return found

    def close(self) -> None:
        """Ends the connections that remain."""
        for connection in list(self._connections):
            self._end(connection)

    @staticmethod
    def _end(connection: socket.socket) -> None:
        """Its thread then closes it."""
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
