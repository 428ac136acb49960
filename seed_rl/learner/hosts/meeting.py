"""How the learner hosts of a run find each other.

The first waits for the others at its address in `--learner_hosts`. When all have come it does not listen there any
more, so that TensorFlow can; the connections stay.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing.connection
import os
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.learner.ending import Stop
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.link import NO_OTHERS, Link
from seed_rl.learner.hosts.peer import Gone, Peer, receive_any
from seed_rl.transport.address import Address, AddressError, parse_address

_log = logging.getLogger(__name__)

_MEET_SECONDS = 600.0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 2.0


@contextlib.contextmanager
def together(hosts: Hosts, settings: Mapping[str, Any], stop: Stop) -> Iterator[Link | None]:
    """All hosts of a run, until left; when this one fails the others are told why.

    Args:
      hosts: which this is, of how many.
      settings: what must be the same on all of them: JSON values by name.
      stop: ends the wait for the others.

    Yields:
      The connections to them; None if `stop` was set.

    Raises:
      AddressError, ConfigError, HostLost: see `meet` and `Link.compare`.
    """
    link = meet(hosts, stop)
    why = ""
    try:
        if link is not None:
            link.compare(settings)
        yield link
    except Exception as error:
        why = str(error) or type(error).__name__
        raise
    finally:
        if link is not None:
            link.close(why)


def meet(hosts: Hosts, stop: Stop, seconds: float = _MEET_SECONDS) -> Link | None:
    """Waits until all hosts are there.

    Args:
      hosts: which this is, of how many.
      stop: ends the wait.
      seconds: how long to wait.

    Returns:
      The connections to them; None if `stop` was set.

    Raises:
      AddressError: this host can't listen at its address, or one of the addresses is none.
      ConfigError: the hosts were not started as parts of one run.
      HostLost: not all came in time.
    """
    if hosts.count == 1:
        return NO_OTHERS
    addresses = [_address(text) for text in hosts.addresses]
    listener = _listen(addresses[hosts.index])
    _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
    deadline = time.monotonic() + seconds
    if hosts.index == 0:
        with listener, contextlib.closing(_Reception(hosts, listener)) as reception:
            return reception.wait(stop, deadline)
    listener.close()  # it was to see that TensorFlow will be able to listen there
    return _visit(hosts, addresses[0], stop, deadline)


class _Reception:
    """Where the first host waits for the others."""

    def __init__(self, hosts: Hosts, listener: socket.socket):
        self._hosts = hosts
        self._listener = listener
        self._unknown: set[Peer] = set()
        self._known: dict[Peer, int] = {}

    def wait(self, stop: Stop, deadline: float) -> Link | None:
        while len(self._known) < self._hosts.count - 1:
            if stop.is_set():
                return None
            if time.monotonic() > deadline:
                raise HostLost(f"{self._missing()} did not come in time")
            by_number = {peer.fileno(): peer for peer in (*self._unknown, *self._known)}
            for number in multiprocessing.connection.wait([self._listener.fileno(), *by_number], _POLL_SECONDS):
                if number in by_number:
                    self._hear(by_number[number])
                else:
                    self._unknown.add(Peer(self._listener.accept()[0]))
        link = Link(self._hosts, self._known)
        for peer in self._known:
            with contextlib.suppress(Gone):  # whoever is gone again will be missed soon
                peer.send({"welcome": True})
        self._known = {}
        return link

    def _hear(self, peer: Peer) -> None:
        """Of somebody who has come what it says; of a host that is known, that it has gone again."""
        try:
            peer.receive()
            hello = peer.next_received()
            if hello is None:
                return
            if peer in self._known or not isinstance(hello, dict):
                raise Gone(peer)
            index, addresses = hello.get("learner_host"), hello.get("learner_hosts")
            if not isinstance(index, int) or index < 1 or not isinstance(addresses, list):
                raise Gone(peer)
            self._welcome(peer, index, list(map(str, addresses)))
        except Gone:
            self._known.pop(peer, None)
            self._unknown.discard(peer)
            peer.close()

    def _welcome(self, peer: Peer, index: int, addresses: list[str]) -> None:
        if addresses != list(self._hosts.addresses):
            differs = (
                f"--learner_hosts is {','.join(self._hosts.addresses)} on host 0 and {','.join(addresses)} on the "
                f"one that was started with --learner_host={index}"
            )
            peer.send({"refused": differs})
            raise ConfigError(differs)
        if index in self._known.values():
            peer.send({"refused": f"there is a learner host {index} already: --learner_host must be another for each"})
            raise Gone(peer)
        self._unknown.discard(peer)
        self._known[peer] = index
        _log.info("learner host %d is here", index)

    def _missing(self) -> str:
        missing = [index for index in range(1, self._hosts.count) if index not in self._known.values()]
        return ", ".join(f"learner host {index} ({self._hosts.addresses[index]})" for index in missing)

    def close(self) -> None:
        for peer in (*self._unknown, *self._known):
            peer.close()


def _visit(hosts: Hosts, first: Address, stop: Stop, deadline: float) -> Link | None:
    """How the other hosts come to the first: again and again until it is there, and all are."""
    while time.monotonic() < deadline:
        if stop.is_set():
            return None
        try:
            connection = socket.create_connection((first.host, first.port), _CONNECT_SECONDS)
        except OSError:  # not there yet, or its name isn't
            time.sleep(_POLL_SECONDS)
            continue
        peer = Peer(connection)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(peer.close)
            with contextlib.suppress(Gone):  # it has ended, and may be started again
                peer.send({"learner_host": hosts.index, "learner_hosts": list(hosts.addresses)})
                while not stop.is_set() and time.monotonic() < deadline:
                    found = receive_any([peer], _POLL_SECONDS)
                    if found is not None:
                        _read_answer(peer, found[1])
                        cleanup.pop_all()
                        return Link(hosts, {peer: 0})
        time.sleep(_POLL_SECONDS)
    raise HostLost(
        f"learner host 0 ({hosts.addresses[0]}) did not answer in time, or not all of the {hosts.count} came to it"
    )


def _read_answer(peer: Peer, answer: Any) -> None:
    if isinstance(answer, dict) and "refused" in answer:
        raise ConfigError(str(answer["refused"]))
    if answer != {"welcome": True}:
        raise Gone(peer)


def _address(text: str) -> Address:
    address = parse_address(text)
    if address.path or not address.port:
        raise AddressError(f"--learner_hosts must be HOST:PORT of each, got {text!r}")
    return address


def _listen(address: Address) -> socket.socket:
    """Where TensorFlow will listen: at all addresses of this machine."""
    try:
        if socket.has_dualstack_ipv6():
            try:
                return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is turned off
                    raise
        return socket.create_server(("", address.port))
    except OSError as error:
        why = os.strerror(error.errno or errno.EIO).lower()
        raise AddressError(f"--learner_hosts: cannot listen on port {address.port}: {why}") from error
