"""The entrance of a learner's server: reports those who are refused there, and cuts off those who insist."""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import logging
import math
import os
import resource
import socket
import stat
import time
import urllib.parse

from seed_rl.transport.protocol import Refusal, Refused

_log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 16_384
_REFUSALS = 4  # of calls on one connection, before it is cut
_PEERS = 1024  # whose refusals are counted, the latest
_REPORT_SECONDS = 60.0
_OPEN_FILES = "/dev/fd"


def max_connections() -> int:
    """Connections that a server takes: the other half of the files that this process may open is its own."""
    return min(_MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class Door:
    """Watches over the peers that get no further. For the server's thread.

    gRPC reads the calls of a connection, and answers those beyond its limits, for as long as they come: it can keep
    several cores busy with a peer whose calls are refused. Such a connection is therefore ended from outside.
    """

    def __init__(self) -> None:
        self._strangers, self._crowd = Seldom(), Seldom()
        self._refusals: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._max_connections = max_connections()

    def refuse(self, peer: str, error: Exception) -> bool:
        """Takes note of a call that is refused before any message is read.

        Args:
          peer: the caller, in gRPC's notation.
          error: the reason.

        Returns:
          Whether the connection has been cut already: this call was under way.
        """
        if isinstance(error, Refused) and error.refusal is Refusal.UNAUTHENTICATED:
            self._strangers.warn(f"{peer} was refused: {error}")
        count = self._refusals[peer] = self._refusals.pop(peer, 0) + 1
        if count % _REFUSALS == 0:
            _cut(peer)
        if len(self._refusals) > _PEERS:
            self._refusals.popitem(last=False)
        return count > _REFUSALS

    def look(self) -> None:
        """Reports connections that use up the files which may be open."""
        try:
            crowded = len(os.listdir(_OPEN_FILES)) > self._max_connections
        except OSError:  # there is no descriptor left to look
            crowded = True
        if crowded:
            self._crowd.warn(
                f"{self._max_connections} connections are open, the most that are taken at a time (half of `ulimit -n`)"
                ": others are closed until some of these end"
            )


class Seldom:
    """Warnings of which the log gets one a minute, however often there is a reason."""

    def __init__(self) -> None:
        self._next = -math.inf
        self._withheld = 0

    def warn(self, sentence: str) -> None:
        """Logs a sentence, or counts it for the next one."""
        now = time.monotonic()
        if now < self._next:
            self._withheld += 1
            return
        _log.warning("%s%s", sentence, f" (and {self._withheld} times before)" if self._withheld else "")
        self._next, self._withheld = now + _REPORT_SECONDS, 0


def _cut(peer: str) -> None:
    """Ends the TCP connection to a peer, of which gRPC gives only the address, and drops all that it has sent."""
    address = _tcp_address(urllib.parse.unquote(peer).partition(":")[2])
    if address is None:  # a unix socket, whose owner decides who may connect
        return
    with contextlib.suppress(OSError):  # no descriptor is left to look: perhaps next time
        for descriptor in map(int, os.listdir(_OPEN_FILES)):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode) and _cut_if_to(address, os.dup(descriptor)):
                    return


def _cut_if_to(address: tuple[object, int], descriptor: int) -> bool:
    """Cuts the connection of a socket, whose descriptor is closed, if the peer has this address."""
    with socket.socket(fileno=descriptor) as connection:
        if _tcp_address("{}:{}".format(*connection.getpeername()[:2])) != address:
            return False
        connection.shutdown(socket.SHUT_RDWR)
        while connection.recv(1 << 20, socket.MSG_DONTWAIT):
            pass
    return True


def _tcp_address(text: str) -> tuple[object, int] | None:
    """The number and the port in `10.0.0.1:80` or `[::ffff:10.0.0.1]:80`, which are equal."""
    host, _, port = text.rpartition(":")
    try:
        number = ipaddress.ip_address(host.strip("[]"))
        return getattr(number, "ipv4_mapped", None) or number, int(port)
    except ValueError:
        return None
