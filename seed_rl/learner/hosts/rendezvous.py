"""The rendezvous of the learner hosts of a run, before TensorFlow is loaded.

Host 0 listens at its address in `--learner_hosts` until all others have connected. It then stops listening, so that
TensorFlow can use the port; the connections stay.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import wait
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.learner.ending import Stop
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.link import NO_OTHERS, Link, Peer
from seed_rl.transport.address import Address, AddressError, parse_address

_log = logging.getLogger(__name__)

_RENDEZVOUS_SECONDS = 600.0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 2.0


@contextlib.contextmanager
def rendezvous(hosts: Hosts, settings: Mapping[str, Any], stop: Stop) -> Iterator[Link | None]:
    """Connects all hosts of a run; if this one fails inside, the others are sent the reason.

    Args:
      hosts: all hosts, and which this is.
      settings: JSON values by name that must be the same on all hosts.
      stop: ends the wait for the others.

    Yields:
      The link to the others; None if `stop` was set.

    Raises:
      AddressError, ConfigError, HostLost: see `connect` and `Link.compare`.
    """
    link = connect(hosts, stop)
    if link is None:
        yield None
        return
    try:
        link.compare(settings)
        yield link
    except Exception as error:
        link.close(str(error) or type(error).__name__)
        raise
    finally:
        link.close()


def connect(hosts: Hosts, stop: Stop, seconds: float = _RENDEZVOUS_SECONDS) -> Link | None:
    """Waits for all hosts.

    Args:
      hosts: all hosts, and which this is.
      stop: ends the wait.
      seconds: time limit.

    Returns:
      The link to the others; None if `stop` was set.

    Raises:
      AddressError: an address is malformed, or this host can't listen at its own.
      ConfigError: the hosts were not started as parts of one run.
      HostLost: not all hosts connected in time.
    """
    if hosts.count == 1:
        return NO_OTHERS
    addresses = [_parse(text) for text in hosts.addresses]
    with _listen(addresses[hosts.index]) as listener, contextlib.ExitStack() as cleanup:
        _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
        deadline = time.monotonic() + seconds
        if hosts.index:
            listener.close()  # it has shown that TensorFlow will be able to listen there
            peers = _connect_to_first(hosts, addresses[0], stop, deadline, cleanup)
        else:
            peers = _accept_others(hosts, listener, stop, deadline, cleanup)
        if peers is None:
            return None
        cleanup.pop_all()
        return Link(hosts, peers)


def _accept_others(
    hosts: Hosts, listener: socket.socket, stop: Stop, deadline: float, cleanup: contextlib.ExitStack
) -> dict[int, Peer] | None:
    """Host 0: connections to all others by index, once all have connected; None if `stop` was set."""
    newcomers: set[Peer] = set()
    peers: dict[int, Peer] = {}
    ready: Any
    while missing := [index for index in range(1, hosts.count) if index not in peers]:
        if stop.is_set():
            return None
        if time.monotonic() > deadline:
            names = ", ".join(f"learner host {index} ({hosts.addresses[index]})" for index in missing)
            raise HostLost(f"{names} did not connect in time")
        for ready in wait([listener, *newcomers, *peers.values()], _POLL_SECONDS):
            if ready is listener:
                newcomers.add(cleanup.enter_context(Peer(listener.accept()[0])))
            elif ready in newcomers:
                newcomers.remove(ready)
                _admit(ready, hosts, peers)
            else:  # hosts are silent until all are there, so this one is gone again
                peers = {index: peer for index, peer in peers.items() if peer is not ready}
                ready.close()
    for peer in newcomers:
        peer.close()
    for peer in peers.values():
        with contextlib.suppress(OSError):  # the first exchange of messages will report the loss
            peer.send({"welcome": True})
    return peers


def _admit(peer: Peer, hosts: Hosts, peers: dict[int, Peer]) -> None:
    """Adds a newcomer to `peers` if it is a host of this run; closes the connection otherwise."""
    try:
        match peer.recv():
            case {"learner_host": int(index), "learner_hosts": [*addresses]}:
                pass
            case _:
                raise ConnectionError("not a learner")
        if tuple(addresses) != hosts.addresses:
            differs = (
                f"--learner_hosts is {','.join(hosts.addresses)} on host 0 and {','.join(map(str, addresses))} on the "
                f"one that was started with --learner_host={index}"
            )
            peer.send({"refused": differs})
            raise ConfigError(differs)
        if index in (0, *peers):
            peer.send({"refused": f"there is a learner host {index} already: each needs its own --learner_host"})
            raise ConnectionError("a second one")
    except OSError:
        peer.close()
    else:
        peers[index] = peer
        _log.info("learner host %d is connected", index)


def _connect_to_first(
    hosts: Hosts, first: Address, stop: Stop, deadline: float, cleanup: contextlib.ExitStack
) -> dict[int, Peer] | None:
    """The other hosts: the connection to host 0, once all have connected to it; None if `stop` was set."""
    peer: Peer | None = None
    while not stop.is_set():
        if time.monotonic() > deadline:
            raise HostLost(
                f"learner host 0 ({hosts.addresses[0]}) did not answer in time, or not all of the {hosts.count} hosts "
                "connected to it"
            )
        try:
            if peer is None:
                connection = socket.create_connection((first.host, first.port), _CONNECT_SECONDS)
                peer = cleanup.enter_context(Peer(connection))
                peer.send({"learner_host": hosts.index, "learner_hosts": hosts.addresses})
            if wait([peer], _POLL_SECONDS):
                match peer.recv():
                    case {"welcome": True}:
                        return {0: peer}
                    case {"refused": reason}:
                        raise ConfigError(reason)
                raise ConnectionError("not a learner")
        except OSError:  # it does not listen yet, or has ended and may be started again
            if peer is not None:
                peer.close()
            peer = None
            time.sleep(_POLL_SECONDS)
    return None


def _parse(text: str) -> Address:
    address = parse_address(text)
    if address.path or not address.port:
        raise AddressError(f"--learner_hosts must be HOST:PORT of each, got {text!r}")
    return address


def _listen(address: Address) -> socket.socket:
    """Listens where TensorFlow will listen: at all addresses of this machine."""
    try:
        if socket.has_dualstack_ipv6():
            try:
                return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is turned off
                    raise
        return socket.create_server(("", address.port))
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise AddressError(f"--learner_hosts: cannot listen on port {address.port}: {reason}") from error
