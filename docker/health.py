"""Whether this container does its part: `health.py` for any, `health.py --ask` for a learner that must answer.

Without a flag: some process in this container serves actors, or is connected to a learner, as the kernel's tables say.
With `--ask` the learner on this machine is asked, with TLS and token, what its actors should build; that is what an
actor's first call does. Exits with 0, or with 1 and a sentence.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Iterator

DEFAULT_PORT = 8686
_ESTABLISHED, _LISTEN = "01", "0A"
_ACCEPTS_CONNECTIONS = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    port = int(os.environ.get("SEED_RL_PORT", DEFAULT_PORT))
    parser.add_argument("--port", type=int, default=port, help="the learner's; default: SEED_RL_PORT, else 8686")
    parser.add_argument("--ask", action="store_true", help="ask the learner on this machine")
    parser.add_argument("--tls_ca", help="with --ask: PEM file with the learner's certificate")
    parser.add_argument("--tls_server_name", help="with --ask: the name in it")
    parser.add_argument("--token_file", help="with --ask: file with the token")
    parser.add_argument("--timeout", type=float, default=5.0, help="with --ask: seconds")
    arguments = parser.parse_args()
    trouble = ask(arguments) if arguments.ask else look(arguments.port, pathlib.Path("/proc/net"))
    if trouble:
        print(trouble, file=sys.stderr)
    return 1 if trouble else 0


def look(port: int, tables: pathlib.Path) -> str:
    """What is wrong as far as the kernel's tables of sockets show it; "" if nothing."""
    for table in ("tcp", "tcp6"):
        for local, remote, state in _sockets(tables / table):
            if (state == _LISTEN and local == port) or (state == _ESTABLISHED and port in (local, remote)):
                return ""
    if _serves_unix_socket(tables / "unix"):
        return ""
    return f"nothing in this container serves actors at port {port} or is connected to a learner's"


def _sockets(table: pathlib.Path) -> Iterator[tuple[int, int, str]]:
    """Local port, remote port and state of each; none where the kernel has no such protocol."""
    if table.exists():
        for line in table.read_text().splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            yield int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16), state


def _serves_unix_socket(table: pathlib.Path) -> bool:
    """Whether the learner of a `train` listens, at a socket of its own."""
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and int(fields[3], 16) & _ACCEPTS_CONNECTIONS and fields[7].endswith("/learner.sock"):
            return True
    return False


def ask(arguments: argparse.Namespace) -> str:
    """What is wrong with the learner's answer; "" if nothing."""
    from seed_rl.transport.client import Disconnected, LearnerClient, Rejected
    from seed_rl.transport.credentials import ClientSecurity, SecurityError, read_token

    try:
        security = ClientSecurity(
            arguments.tls_ca, read_token(arguments.token_file), server_name=arguments.tls_server_name
        )
        client = LearnerClient(f"localhost:{arguments.port}", security, name="health check")
        try:
            client.describe(arguments.timeout)
        finally:
            client.close()
    except (Disconnected, Rejected, SecurityError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
