"""The addresses of learner hosts, and the wait until all are up; what they then tell each other is in `collectives`."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import time

from seed_rl.errors import OthersGone
from seed_rl.system.signals import Stop
from seed_rl.transport.address import Address, AddressError, parse_address

_log = logging.getLogger(__name__)

_NOT_SECURED = (
    "learner hosts neither encrypt nor authenticate what they send each other, and anyone who reaches their ports "
    "controls them: keep them in a private network"
)
_MEETING_SECONDS = 600.0
_POLL_SECONDS = 0.2
_CONNECT_SECONDS = 1.0


class HostLost(OthersGone):
    """Another learner process is gone, and updates need all of them; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The learner processes of a run and the index of this one. Each serves its own actors."""

    addresses: tuple[str, ...]  # `host:port` at which the others reach each process, in the same order everywhere
    index: int  # index of this process; process 0 writes the checkpoints
    trusted_network: bool = False
    """Allow addresses that other machines reach, although anyone who reaches them controls the hosts."""

    def __post_init__(self):
        if self.count < 2:
            raise ValueError(f"expected the addresses of two or more learner hosts, got {','.join(self.addresses)}")
        if not 0 <= self.index < self.count:
            raise ValueError(f"of {self.count} learner hosts the index must be 0 to {self.count - 1}, got {self.index}")
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"learner hosts must have different addresses, got {','.join(self.addresses)}")
        if not all(address.port for address in self.parsed):
            raise ValueError(f"learner hosts are at HOST:PORT each, got {','.join(self.addresses)}")
        if not self.trusted_network and not all(address.is_local for address in self.parsed):
            raise ValueError(f"{_NOT_SECURED}; say so with --trusted_network")

    @property
    def count(self) -> int:
        """Number of processes, at least two."""
        return len(self.addresses)

    @property
    def parsed(self) -> list[Address]:
        return [parse_address(text) for text in self.addresses]

    def name(self, index: int) -> str:
        return f"learner host {index} ({self.addresses[index]})"


def meet(hosts: Hosts, stop: Stop, seconds: float = _MEETING_SECONDS) -> bool:
    """Wait until every host listens at its port, and return True, or until `stop` is set.

    TensorFlow itself would wait forever and can't be interrupted. Raises AddressError, and HostLost without an answer.
    """
    missing = {index: address for index, address in enumerate(hosts.parsed) if index != hosts.index}
    deadline = time.monotonic() + seconds
    with _listening(hosts.parsed[hosts.index].port):
        _log.info("learner host %d of %d: waiting for the others", hosts.index, hosts.count)
        while missing:
            for index, address in [*missing.items()]:
                if stop.is_set():
                    return False
                with contextlib.suppress(OSError):  # it does not listen yet, or has no name yet
                    socket.create_connection((address.host, address.port), _CONNECT_SECONDS).close()
                    del missing[index]
            if missing and time.monotonic() > deadline:
                names = ", ".join(map(hosts.name, missing))
                raise HostLost(f"{names} did not answer within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS if missing else 0.0)
    return not stop.is_set()


def _listening(port: int) -> socket.socket:
    both = socket.has_dualstack_ipv6()
    try:  # as TensorFlow will, by IPv4 and IPv6
        return socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise AddressError(f"this learner host cannot listen on port {port}: {reason}") from error
