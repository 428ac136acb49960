"""Health check of all containers: `health.py` for any container, `health.py --ask` for a learner that must answer.

Without flags, some process in this container must serve actors or be connected to a learner, according to the kernel's
socket tables. With `--ask`, the learner on this machine must answer an actor's first call, with TLS and token. The exit
code is 0, or 1 after an error message.
"""

import argparse
import os
import pathlib
import sys

_ESTABLISHED, _LISTEN = "01", "0A"
_ACCEPTS_CONNECTIONS = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given = os.environ.get("SEED_RL_PORT", "")  # Kubernetes sets it to a URL where there is a service named seed-rl
    port = int(given) if given.isdecimal() else 8686
    parser.add_argument("--port", type=int, default=port, help="port of the learner; default: SEED_RL_PORT, or 8686")
    parser.add_argument("--ask", action="store_true", help="call the learner on this machine")
    parser.add_argument("--tls_ca", help="with --ask: PEM file with the learner's certificate")
    parser.add_argument("--tls_server_name", help="with --ask: name in the certificate")
    parser.add_argument("--tls_cert", help="with --ask: PEM file with a certificate that the learner asks for")
    parser.add_argument("--tls_key", help="with --ask: PEM file with its key")
    parser.add_argument("--token_file", help="with --ask: file with the token")
    arguments = parser.parse_args()
    sys.exit((ask(arguments) if arguments.ask else look(arguments.port, pathlib.Path("/proc/net"))) or 0)


def look(port: int, tables: pathlib.Path) -> str:
    """Return an error message based on the kernel's socket tables; "" if all is well."""
    for table in (tables / "tcp", tables / "tcp6"):
        for _, local, remote, state, *_ in _rows(table):
            listens, connects = (int(address.rpartition(":")[2], 16) == port for address in (local, remote))
            if (state == _LISTEN and listens) or (state == _ESTABLISHED and (listens or connects)):
                return ""
    for _, _, _, flags, _, _, _, *path in _rows(tables / "unix"):  # the learner of `seed_rl train`
        if int(flags, 16) & _ACCEPTS_CONNECTIONS and path and path[0].endswith("/learner.sock"):
            return ""
    return f"nothing in this container serves actors at port {port} or is connected to it"


def _rows(table: pathlib.Path) -> list[list[str]]:
    """Return the fields of each socket; empty if the kernel lacks the protocol."""
    return [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []


def ask(arguments: argparse.Namespace) -> str:
    """Call the learner and return the error; "" if it answers."""
    from seed_rl.transport import credentials
    from seed_rl.transport.client import Disconnected, LearnerClient, Rejected

    try:
        authorities = credentials.read_authorities(arguments.tls_ca)
        token = credentials.read_token(arguments.token_file)
        own = credentials.read_certificate(arguments.tls_cert, arguments.tls_key)
        security = credentials.ClientSecurity(authorities, token, False, arguments.tls_server_name, *own)
        LearnerClient(f"localhost:{arguments.port}", security, name="health check").describe(5.0)
    except (Disconnected, Rejected, credentials.SecurityError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
