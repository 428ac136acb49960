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
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import wait
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.learner.ending import Stop
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.link import NO_OTHERS, Link, Peer
from seed_rl.transport.address import AddressError, parse_address

_log = logging.getLogger(__name__)

_RENDEZVOUS_SECONDS = 600.0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 2.0


def rendezvous(
    hosts: Hosts, settings: Mapping[str, Any], stop: Stop, seconds: float = _RENDEZVOUS_SECONDS
) -> AbstractContextManager[Link | None]:
    """Waits for all hosts of a run, and compares their settings.

    Args:
      hosts: all hosts, and which this is.
      settings: JSON values by name that must be the same on all hosts.
      stop: ends the wait.
      seconds: time limit.

    Returns:
      The link to the others; a context without one if `stop` was set.

    Raises:
      AddressError: an address is malformed, or this host can't listen at its own.
      ConfigError: the hosts were not started as parts of one run, or with different settings.
      HostLost: not all hosts connected in time, or one has ended.
    """
    if hosts.count == 1:
        return NO_OTHERS
    addresses = [_parse(text) for text in hosts.addresses]
    with _listen(addresses[hosts.index][1]) as listener, ExitStack() as cleanup:
        _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
        deadline = time.monotonic() + seconds
        if hosts.index:
            listener.close()  # it has shown that TensorFlow will be able to listen there
            peers = _connect_to_first(hosts, addresses[0], stop, deadline, cleanup)
        else:
            peers = _accept_others(hosts, listener, stop, deadline, cleanup)
        if peers is None:
            return contextlib.nullcontext()
        cleanup.pop_all()
    with ExitStack() as cleanup:
        link = cleanup.enter_context(Link(hosts, peers))
        link.compare(settings)
        cleanup.pop_all()
    return link


def _accept_others(
    hosts: Hosts, listener: socket.socket, stop: Stop, deadline: float, cleanup: ExitStack
) -> dict[int, Peer] | None:
    """Host 0: connections to all others by index, once all have connected; None if `stop` was set."""
    arrived: dict[Any, int | None] = {}  # the index of each, None until it has sent that
    ready: Any
    while missing := [index for index in range(1, hosts.count) if index not in arrived.values()]:
        if stop.is_set():
            return None
        if time.monotonic() > deadline:
            names = ", ".join(f"learner host {index} ({hosts.addresses[index]})" for index in missing)
            raise HostLost(f"{names} did not connect in time")
        for ready in wait([listener, *arrived], _POLL_SECONDS):
            if ready is listener:
                arrived[cleanup.enter_context(Peer(listener.accept()[0]))] = None
            elif arrived[ready] is None and (index := _index_of(ready, hosts, arrived.values())):
                arrived[ready] = index
                _log.info("learner host %d is connected", index)
            else:  # no host; or one that is gone again, as hosts are silent until all are there
                del arrived[ready]
                ready.close()
    peers = {index: peer for peer, index in arrived.items() if index is not None}
    for stranger in arrived.keys() - peers.values():
        stranger.close()
    for peer in peers.values():
        with contextlib.suppress(OSError):  # the first exchange of messages will report the loss
            peer.write({"welcome": True})
    return peers


def _index_of(newcomer: Peer, hosts: Hosts, taken: Collection[int | None]) -> int | None:
    """The index that a newcomer sends; None if it is not a further host of this run.

    Raises:
      ConfigError: it is a learner host of another list.
    """
    with contextlib.suppress(OSError):
        match newcomer.read():
            case {"learner_host": int(index), "learner_hosts": [*addresses]}:
                if tuple(addresses) != hosts.addresses:
                    differs = (
                        f"--learner_hosts is {','.join(hosts.addresses)} on host 0 and {','.join(map(str, addresses))} "
                        f"on the one that was started with --learner_host={index}"
                    )
                    newcomer.write({"refused": differs})
                    raise ConfigError(differs)
                if index and index not in taken:
                    return index
                reason = f"there is a learner host {index} already: each needs its own --learner_host"
                newcomer.write({"refused": reason})
    return None


def _connect_to_first(
    hosts: Hosts, first: tuple[str, int], stop: Stop, deadline: float, cleanup: ExitStack
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
                peer = cleanup.enter_context(Peer(socket.create_connection(first, _CONNECT_SECONDS)))
                peer.write({"learner_host": hosts.index, "learner_hosts": hosts.addresses})
            if wait([peer], _POLL_SECONDS):
                match peer.read():
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


def _parse(text: str) -> tuple[str, int]:
    address = parse_address(text)
    if address.path or not address.port:
        raise AddressError(f"--learner_hosts must be HOST:PORT of each, got {text!r}")
    return address.host, address.port


def _listen(port: int) -> socket.socket:
    """Listens where TensorFlow will listen: at all addresses of this machine."""
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
