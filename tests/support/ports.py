"""Ports of this machine for servers that choose none themselves."""

from seed_rl.transport.address import unused_port


def free_addresses(count):
    """Return distinct addresses on loopback at which nobody listens."""
    ports = set()
    while len(ports) < count:
        ports.add(unused_port())
    return tuple(f"localhost:{port}" for port in ports)
