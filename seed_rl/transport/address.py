"""The addresses at which a learner can listen: `host:port` or `unix:/path`."""

import contextlib
import dataclasses
import errno
import ipaddress
import os
import random
import re
import socket
import stat
import urllib.parse

from seed_rl.errors import UsageError
from seed_rl.system.files import explaining

_ADDRESS = re.compile(
    r"unix:(//)?(?P<path>.+) | (\[(?P<ip6>[^][/]+)] | (?P<host>[^][/:]+)) : (?P<port>[0-9]{1,5})", re.VERBOSE
)
# Linux assigns ports from 32768 on to connections, others from 49152; Ray and Kubernetes use none of these either.
_UNASSIGNED = range(20_000, 30_000)


class AddressError(UsageError):
    """An address that is malformed or can't be listened on; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Address:
    """Either a path, or a host and a port."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        """The address for gRPC, in whose paths `#`, `?` and `%` mean something else."""
        return f"unix:{urllib.parse.quote(self.path)}" if self.path else str(self)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return False

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for all addresses of a machine, of both kinds: nobody can connect to it."""
        return self.host in ("0.0.0.0", "::")


def parse_address(text: str) -> Address:
    """Parse the address of a learner; raise AddressError if it is neither `unix:PATH` nor `HOST:PORT`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        raise AddressError(f"an address must be HOST:PORT, [IPV6]:PORT or unix:PATH, got {text!r}")
    with explaining(AddressError, f"the host must be a name or an address, IPv6 in brackets, got {text!r}", ValueError):
        (match["host"] or "").encode("idna")
        ipaddress.IPv6Address(match["ip6"] or "::")
    return Address(match["path"] or "", match["ip6"] or match["host"] or "", int(match["port"] or 0))


def unused_port() -> int:
    """Return a port on which a server can listen later: it is free, and no connection will be assigned it meanwhile."""
    for port in random.SystemRandom().sample(_UNASSIGNED, len(_UNASSIGNED)):
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port
    raise AddressError(f"no port from {_UNASSIGNED.start} to {_UNASSIGNED.stop - 1} is free")


def _clear_stale_socket(path: str) -> None:
    """Remove the socket file that a dead server left behind; raise OSError if anything else is there."""
    # If nothing is there and binding fails too, its error says why.
    with contextlib.suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError as refusal:
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise OSError("a file that isn't a socket is there") from refusal
            os.unlink(path)
        else:
            raise OSError("another process serves there")


def check_free(address: Address) -> None:
    """Check that an address can be listened on, at every local address that a host name resolves to.

    Otherwise raise AddressError: gRPC would settle for one of them, and doesn't say why it can't bind an address.
    """
    cannot = f"cannot listen on {address}"
    with explaining(AddressError, cannot):
        if address.path:
            _clear_stale_socket(address.path)
            with socket.socket(socket.AF_UNIX) as probe:
                probe.bind(address.path)
            os.unlink(address.path)
            return
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    places = {place: family for family, *_, place in found}  # a host may be listed twice
    failed: list[OSError] = []
    for place, family in places.items():
        try:
            socket.create_server(place, family=family).close()
        except OSError as error:
            failed.append(error)
    taken = [each for each in failed if each.errno == errno.EADDRINUSE]
    for each in taken or (failed if len(failed) == len(places) else []):
        raise AddressError(f"{cannot}: {each.strerror}") from each
