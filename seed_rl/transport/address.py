"""Where a learner listens: `host:port` or `unix:/path`."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import socket
import stat


class AddressError(OSError, ValueError):
    """An address that isn't one, or that can't be listened on; one sentence."""


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
        """Whether only this machine can be at the other end."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # a name
            return False


def parse_address(text: str) -> Address:
    """
    Raises:
      AddressError: neither `unix:PATH` nor `HOST:PORT`.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if path.startswith("//"):
            path = path[2:]
        if path:
            return Address(path=path)
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise AddressError(f"an address must be HOST:PORT, [IPV6]:PORT or unix:PATH, got {text!r}")
    return Address(host=host, port=int(port))


def clear_stale_socket(path: str) -> None:
    """Removes the socket file of a server that is no more.

    Raises:
      AddressError: a server answers there, or the file isn't a socket.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing there, or the bind will say what is wrong
        return
    if not stat.S_ISSOCK(mode):
        raise AddressError(f"cannot listen on unix:{path}: a file that isn't a socket is there")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            raise AddressError(f"cannot listen on unix:{path}: {error.strerror or error}") from error
    raise AddressError(f"cannot listen on unix:{path}: another process serves there")


def explain_bind_failure(address: Address) -> AddressError:
    """Why an address that gRPC couldn't bind can't be bound; gRPC itself doesn't tell."""
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
