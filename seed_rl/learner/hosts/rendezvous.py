"""The rendezvous of the learner hosts of a run, before TensorFlow is loaded.

Each host listens at its port in `--learner_hosts`. First all others connect to host 0, and their settings are compared;
then each connects to the next one, which makes the ring. The ports are then closed; the connections stay.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import wait
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.learner.ending import Stop
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.handshake import Greeted, Stranger, equal, greet, introduce
from seed_rl.learner.hosts.link import NO_OTHERS, Link
from seed_rl.learner.hosts.peer import Peer
from seed_rl.learner.hosts.ring import Ring
from seed_rl.transport.address import AddressError, parse_address
from seed_rl.transport.credentials import ServerSecurity

_log = logging.getLogger(__name__)

_RENDEZVOUS_SECONDS = 600.0
_RING_SECONDS = 60.0  # all hosts have met host 0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 2.0
_GREETING_SECONDS = 20.0
_MOST_NEWCOMERS = 64
_NO_CREDENTIALS = ServerSecurity()


def rendezvous(
    hosts: Hosts,
    settings: Mapping[str, Any],
    stop: Stop,
    security: ServerSecurity = _NO_CREDENTIALS,
    seconds: float = _RENDEZVOUS_SECONDS,
) -> AbstractContextManager[Link | None]:
    """Waits for all hosts of a run, and compares their settings.

    Args:
      hosts: all hosts, and which this is.
      settings: JSON values by name that must be the same on all hosts.
      stop: ends the wait.
      security: the credentials of the run, which all hosts must have: see `handshake`.
      seconds: time limit.

    Returns:
      The link to the others; a context without one if `stop` was set.

    Raises:
      AddressError: an address is malformed, or this host can't listen at its own.
      ConfigError: the hosts were not started as parts of one run, or with different credentials or settings.
      HostLost: not all hosts connected in time, or one has ended.
    """
    if hosts.count == 1:
        return NO_OTHERS
    addresses = [_parse(text) for text in hosts.addresses]
    with _listen(addresses[hosts.index][1]) as listener, ExitStack() as cleanup:
        _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
        meeting = _Meeting(hosts, addresses, listener, security, stop, time.monotonic() + seconds, cleanup)
        peers = meeting.connect(0) if hosts.index else meeting.accept(range(1, hosts.count))
        if peers is None:
            return contextlib.nullcontext()
        link = cleanup.enter_context(Link(hosts, peers))
        link.compare(settings)
        ring = meeting.ring()
        if ring is None:
            return contextlib.nullcontext()
        link.use(ring)
        cleanup.pop_all()
    return link


@dataclasses.dataclass(frozen=True)
class _Meeting:
    """The arrival of the hosts' connections."""

    hosts: Hosts
    addresses: Sequence[tuple[str, int]]
    listener: socket.socket
    security: ServerSecurity
    stop: Stop
    deadline: float
    cleanup: ExitStack
    """Closes all connections, should the rendezvous fail."""

    def accept(self, expected: Collection[int]) -> dict[int, Peer] | None:
        """Connections from other hosts by index, once all of them have connected; None if `stop` was set."""
        newcomers = _Newcomers(self.hosts, self.security)
        self.cleanup.callback(newcomers.close)
        arrived: dict[int, Greeted] = {}
        while missing := [index for index in expected if index not in arrived]:
            if self.stop.is_set():
                return None
            if time.monotonic() > self.deadline:
                names = ", ".join(f"learner host {index} ({self.hosts.addresses[index]})" for index in missing)
                raise HostLost(f"{names} did not connect in time")
            ready = wait([self.listener, *_peers(arrived)], _POLL_SECONDS)
            if self.listener in ready:
                newcomers.greet(self.listener.accept()[0])
            for host in newcomers.take():
                self.cleanup.callback(host.peer.close)
                if not self._is_new(host, expected, arrived):
                    reason = f"there is a learner host {host.number} already: each needs its own --learner_host"
                    with contextlib.suppress(OSError):
                        host.peer.write({"refused": reason})
                    host.peer.close()
                    continue
                arrived[host.number] = host
                _log.info("learner host %d is connected", host.number)
            for gone in wait(_peers(arrived), 0) if arrived else ():  # hosts are silent until all are there
                index = next(index for index, host in arrived.items() if host.peer is gone)
                arrived.pop(index).peer.close()
        newcomers.close()
        for host in arrived.values():
            with contextlib.suppress(OSError):  # the first exchange of messages will report the loss
                host.peer.write({"welcome": host.welcome})
        return {index: host.peer for index, host in arrived.items()}

    @staticmethod
    def _is_new(host: Greeted, expected: Collection[int], arrived: Mapping[int, Greeted]) -> bool:
        if host.number not in expected:
            return False
        return host.number not in arrived or bool(wait(_peers({host.number: arrived[host.number]}), 0))

    def connect(self, number: int) -> dict[int, Peer] | None:
        """The connection to a host, once all that it expects have connected to it; None if `stop` was set."""
        peer: Peer | None = None
        expected = ""
        while not self.stop.is_set():
            if time.monotonic() > self.deadline:
                raise HostLost(
                    f"learner host {number} ({self.hosts.addresses[number]}) did not answer in time, or not all of the "
                    f"{self.hosts.count} hosts connected to it"
                )
            try:
                if peer is None:
                    connection = socket.create_connection(self.addresses[number], _CONNECT_SECONDS)
                    peer, expected = introduce(connection, self.hosts, self.security)
                    self.cleanup.callback(peer.close)
                if wait([peer], _POLL_SECONDS):  # type: ignore[list-item]
                    match peer.read():
                        case {"welcome": str(proof)}:
                            if not equal(proof, expected):
                                own = self.hosts.index
                                raise ConfigError(f"the token of learner host {number} isn't that of host {own}")
                            return {number: peer}
                        case {"refused": str(reason)}:
                            raise ConfigError(reason)
                    raise ConnectionError("not a learner")
            except OSError:  # it does not listen yet, or has ended and may be started again
                if peer is not None:
                    peer.close()
                peer = None
                time.sleep(_POLL_SECONDS)
        return None

    def ring(self) -> Ring | None:
        """The connections to both neighbours; None if `stop` was set."""
        meeting = dataclasses.replace(self, deadline=min(self.deadline, time.monotonic() + _RING_SECONDS))
        previous, following = ((self.hosts.index + step) % self.hosts.count for step in (-1, 1))
        with ThreadPoolExecutor(1, "next host") as pool:  # each host waits for one while another waits for it
            connecting = pool.submit(meeting.connect, following)
            accepted = meeting.accept([previous])
            connected = connecting.result()
        if accepted is None or connected is None:
            return None
        for peer in (accepted[previous], connected[following]):
            peer.wait_forever()
        return Ring(self.hosts, accepted[previous], connected[following])


def _peers(hosts: Mapping[int, Greeted]) -> list[Any]:
    return [host.peer for host in hosts.values()]


class _Newcomers:
    """Connections that have not yet shown who they are, each with a thread: none can make the others wait."""

    def __init__(self, hosts: Hosts, security: ServerSecurity):
        self._hosts = hosts
        self._security = security
        self._connections: dict[socket.socket, float] = {}  # and when they came
        self._done: queue.SimpleQueue[Greeted | ConfigError] = queue.SimpleQueue()
        self._reported: set[str] = set()

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
        try:
            where = str(connection.getpeername()[0])
            self._done.put(greet(connection, self._hosts, self._security))
        except ConfigError as error:
            self._done.put(error)
        except Stranger as error:
            if str(error) not in self._reported:  # once each: anyone can cause it
                self._reported.add(str(error))
                _log.warning("a connection from %s was refused: %s", where, error)
        except OSError as error:
            _log.debug("a connection from %s has ended: %s", where, error)
        finally:
            del self._connections[handle]
            handle.close()

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


def _parse(text: str) -> tuple[str, int]:
    address = parse_address(text)
    if address.path or not address.port:
        raise AddressError(f"--learner_hosts must be HOST:PORT of each, got {text!r}")
    return address.host, address.port


def _listen(port: int) -> socket.socket:
    """Listens at all addresses of this machine."""
    try:
        if socket.has_dualstack_ipv6():
            try:
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is turned off
                    raise
        return socket.create_server(("", port))
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise AddressError(f"--learner_hosts: cannot listen on port {port}: {reason}") from error
