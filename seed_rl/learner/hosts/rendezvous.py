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
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import wait
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.learner.ending import Stop
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.handshake import Greeted, equal, introduce
from seed_rl.learner.hosts.link import NO_OTHERS, Link
from seed_rl.learner.hosts.newcomers import Newcomers
from seed_rl.learner.hosts.peer import Peer
from seed_rl.learner.hosts.ring import Ring
from seed_rl.transport.address import Address, AddressError, parse_address
from seed_rl.transport.credentials import ServerSecurity

_log = logging.getLogger(__name__)

_RENDEZVOUS_SECONDS = 600.0
_RING_SECONDS = 60.0  # all hosts have met host 0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 2.0
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
      SecurityError: other machines can reach this host, and credentials are missing.
    """
    if hosts.count == 1:
        return NO_OTHERS
    addresses = [_parse(text) for text in hosts.addresses]
    own = addresses[hosts.index]
    security.check(own)
    with _listen(own) as listener, ExitStack() as cleanup:
        _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
        meeting = _Meeting(hosts, addresses, listener, security, stop, time.monotonic() + seconds, cleanup)
        peers = meeting.connect(0) if hosts.index else meeting.accept(range(1, hosts.count))
        if peers is None:
            return contextlib.nullcontext()
        link = cleanup.enter_context(Link(hosts, peers))
        link.compare(settings)
        ring = meeting.ring(link)
        if ring is None:
            if not stop.is_set():
                link.report_loss(_CONNECT_SECONDS)
            return contextlib.nullcontext()
        link.use(ring)
        cleanup.pop_all()
    return link


@dataclasses.dataclass(frozen=True)
class _Meeting:
    """The arrival of the hosts' connections."""

    hosts: Hosts
    addresses: Sequence[Address]
    listener: socket.socket
    security: ServerSecurity
    stop: Stop
    deadline: float
    cleanup: ExitStack
    """Closes all connections, should the rendezvous fail."""
    purpose: str = "run"

    def accept(self, expected: Collection[int]) -> dict[int, Peer] | None:
        """Connections from other hosts by index, once all of them have connected; None if `stop` was set."""
        newcomers = Newcomers(self.hosts, self.security, self.purpose)
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
                    address = self.addresses[number]
                    connection = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
                    peer, expected = introduce(connection, self.hosts, self.security, self.purpose)
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

    def ring(self, link: Link) -> Ring | None:
        """The connections to both neighbours; None if `stop` was set or another host has ended."""
        stop = _RingStop(self.stop, link)
        meeting = dataclasses.replace(self, stop=stop, purpose="ring", deadline=time.monotonic() + _RING_SECONDS)
        previous, following = ((self.hosts.index + step) % self.hosts.count for step in (-1, 1))
        with ThreadPoolExecutor(1, "next host") as pool:  # each host waits for one while another waits for it
            connecting = pool.submit(stop.one_of_two, meeting.connect, following)
            accepted = stop.one_of_two(meeting.accept, [previous])
            connected = connecting.result()
        if accepted is None or connected is None:
            return None
        for peer in (accepted[previous], connected[following]):
            peer.wait_forever()
        return Ring(self.hosts, accepted[previous], connected[following])


class _RingStop:
    """Ends the building of a ring on request, when another host has ended, or when one of its two parts fails."""

    def __init__(self, stop: Stop, link: Link):
        self._stop = stop
        self._link = link
        self._failed = False

    def is_set(self) -> bool:
        return self._failed or self._stop.is_set() or self._link.is_broken

    def one_of_two(self, part: Callable[[Any], dict[int, Peer] | None], argument: Any) -> dict[int, Peer] | None:
        """Runs a part, whose failure ends the other."""
        try:
            return part(argument)
        except BaseException:
            self._failed = True
            raise


def _peers(hosts: Mapping[int, Greeted]) -> list[Any]:
    return [host.peer for host in hosts.values()]


def _parse(text: str) -> Address:
    address = parse_address(text)
    if address.path or not address.port:
        raise AddressError(f"--learner_hosts must be HOST:PORT of each, got {text!r}")
    return address


def _listen(own: Address) -> socket.socket:
    """Listens at all addresses of this machine, or within it if the host's own is local."""
    port = own.port
    try:
        if own.is_local:
            return socket.create_server((own.host, port), family=socket.AF_INET6 if ":" in own.host else socket.AF_INET)
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
