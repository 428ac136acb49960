"""The addresses at which a learner can listen: `host:port` or `unix:/path`."""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import os
import re
import socket
import stat

_ADDRESS = re.compile(
    r"unix:(//)?(?P<path>.+) | (\[(?P<ip6>[^][/]+)] | (?P<host>[^][/:]+)) : (?P<port>[0-9]{1,5})", re.VERBOSE
)


class AddressError(OSError, ValueError):
    """An address that is malformed or can't be listened on; one sentence."""


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
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return False


def parse_address(text: str) -> Address:
    """Parse the address of a learner.

    Raises:
      AddressError: the text is neither `unix:PATH` nor `HOST:PORT`.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        raise AddressError(f"an address must be HOST:PORT, [IPV6]:PORT or unix:PATH, got {text!r}")
    return Address(match["path"] or "", match["ip6"] or match["host"] or "", int(match["port"] or 0))


def clear_stale_socket(path: str) -> None:
    """Remove the socket file that a dead server left behind.

    Raises:
      AddressError: a server answers there, or the file isn't a socket.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
            reason = "another process serves there"
        except (FileNotFoundError, NotADirectoryError):  # if binding fails too, its error says why
            return
        except ConnectionRefusedError:
            if stat.S_ISSOCK(os.stat(path).st_mode):
                os.unlink(path)
                return
            reason = "a file that isn't a socket is there"
        except OSError as error:
            reason = error.strerror or str(error)
    raise AddressError(f"cannot listen on unix:{path}: {reason}")


def check_all_free(address: Address) -> None:
    """Check that every local address a host name resolves to is free; gRPC would settle for one of them.

    Raises:
      AddressError: another process listens at one of them.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:  # binding will fail too
        return
    for family, _, _, _, numeric in found:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(numeric)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    where = "" if numeric[0] == address.host else f" at {numeric[0]}"
                    raise AddressError(f"cannot listen on {address}: address already in use{where}") from error


def explain_bind_failure(address: Address) -> AddressError:
    """Return the error that explains why gRPC, which gives no reason, couldn't bind an address."""
    family = socket.AF_UNIX if address.path else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    reason = "gRPC could not bind it"
    try:
        with socket.socket(family) as probe:
            if address.path:
                probe.bind(address.path)
                os.unlink(address.path)
            else:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address.host, address.port))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    return AddressError(f"cannot listen on {address}: {reason}")
