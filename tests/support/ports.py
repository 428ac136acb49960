"""Ports of this machine for servers that choose none themselves."""

import contextlib
import socket


def free_addresses(count):
    """Addresses on loopback that were free a moment ago."""
    with contextlib.ExitStack() as cleanup:
        sockets = [cleanup.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return tuple(f"localhost:{each.getsockname()[1]}" for each in sockets)
