"""The first messages between learner hosts: they prove to each other that they belong to one run.

All hosts of a run have the same credentials. With a certificate, their connections are encrypted, and the host that is
connected to (host 0, or the next one of the ring) must show that very certificate. With a token, each proves that it
has it by a keyed hash of random numbers from both sides: the token itself is never sent.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import ssl
from typing import NamedTuple

from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import Hosts
from seed_rl.learner.hosts.peer import Peer
from seed_rl.transport.credentials import ServerSecurity

_TLS_RECORD = b"\x16"  # the first byte of a connection with TLS
_SECONDS = 5.0  # for each message


class Stranger(Exception):
    """A connection that is not a host of this run; one sentence."""


class Greeted(NamedTuple):
    """A host that belongs to the run."""

    peer: Peer
    number: int
    """Its index."""
    welcome: str
    """The own proof, to be sent when all have come."""


def greet(connection: socket.socket, hosts: Hosts, security: ServerSecurity, purpose: str) -> Greeted:
    """Finds out who has connected, for a `purpose` that both sides name. The connection is closed if this raises.

    Raises:
      Stranger: no host of this run.
      ConfigError: a host with the run's credentials that was started with another list of hosts.
      OSError: the connection has ended, or is silent.
    """
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(connection.close)
        peer = Peer(_encrypted_as_first(connection, security), _SECONDS)
        cleanup.callback(peer.close)
        challenge = secrets.token_hex()
        match peer.read():
            case {"challenge": str(theirs)}:
                peer.write({"challenge": challenge})
            case _:
                raise Stranger("it speaks another protocol")
        match peer.read():
            case {
                "learner_host": index,
                "learner_hosts": [*addresses],
                "purpose": str(theirs_is),
                "proof": str(proof),
            } if type(index) is int:
                hello = _hello(index, addresses, theirs_is)
            case _:
                raise Stranger("it speaks another protocol")
        if not equal(proof, _proof(security, "host", challenge, theirs, hello)):
            refused = Stranger(_why_refused(security, index, proof))
            peer.write({"refused": str(refused)})
            raise refused
        if tuple(addresses) != hosts.addresses:
            differs = (
                f"--learner_hosts is {','.join(hosts.addresses)} on host 0 and {','.join(map(str, addresses))} "
                f"on the one that was started with --learner_host={index}"
            )
            peer.write({"refused": differs})
            raise ConfigError(differs)
        if theirs_is != purpose:
            raise Stranger(f"learner host {index} connects for the {theirs_is} while this host waits for the {purpose}")
        if index == hosts.index or not 0 <= index < hosts.count:
            raise Stranger(f"of {hosts.count} learner hosts, no other than host {hosts.index} has the index {index}")
        cleanup.pop_all()
        return Greeted(peer, index, _proof(security, "welcome", theirs, challenge, hello))


def introduce(connection: socket.socket, hosts: Hosts, security: ServerSecurity, purpose: str) -> tuple[Peer, str]:
    """Introduces this host to the one that it has connected to. The connection is closed if this raises.

    Returns:
      The peer, and the proof that its welcome must hold.

    Raises:
      ConfigError: that has another certificate, or none.
      OSError: the connection has ended, or is silent.
    """
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(connection.close)
        peer = Peer(_encrypted(connection, security), _SECONDS)
        cleanup.callback(peer.close)
        challenge = secrets.token_hex()
        peer.write({"challenge": challenge})
        match peer.read():
            case {"challenge": str(theirs)}:
                pass
            case {"refused": str(reason)}:
                raise ConfigError(reason)
            case _:
                raise ConnectionError("not a learner")
        hello = _hello(hosts.index, list(hosts.addresses), purpose)
        proof = _proof(security, "host", theirs, challenge, hello)
        own = {"learner_host": hosts.index, "learner_hosts": hosts.addresses, "purpose": purpose}
        peer.write({**own, "proof": proof})
        cleanup.pop_all()
        return peer, _proof(security, "welcome", challenge, theirs, hello)


def equal(given: str, expected: str) -> bool:
    """Whether a proof is the expected one, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _hello(index: int, addresses: list[object], purpose: str) -> str:
    return json.dumps([index, addresses, purpose])


def _proof(security: ServerSecurity, *parts: str) -> str:
    """The keyed hash of some texts; empty without a token."""
    return hmac.digest(security.token.encode(), json.dumps(parts).encode(), "sha256").hex() if security.token else ""


def _why_refused(security: ServerSecurity, index: int, proof: str) -> str:
    if not security.token:
        return f"learner host {index} has a token and host 0 has none: start all hosts with the same --token_file"
    if not proof:
        return f"learner host 0 asks for a token: start host {index} with its --token_file, or SEED_RL_TOKEN"
    return f"the token of learner host {index} isn't that of host 0"


def _encrypted_as_first(connection: socket.socket, security: ServerSecurity) -> socket.socket:
    connection.settimeout(_SECONDS)
    speaks_tls = connection.recv(1, socket.MSG_PEEK) == _TLS_RECORD
    if security.certificate is None or security.private_key is None:
        if speaks_tls:
            connection.recv(1 << 16)  # closed with something unread, the connection would lose the answer
            connection.sendall(b"no TLS here\n")  # which the other's TLS takes for an error, unlike an end
            raise Stranger("it has --tls_cert and this learner host has none: start all hosts with the same")
        return connection
    if not speaks_tls:
        refused = Stranger("learner host 0 has --tls_cert: start all hosts with the same --tls_cert and --tls_key")
        connection.sendall(json.dumps({"refused": str(refused)}).encode() + b"\n")
        raise refused
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # they would make a connection readable that has no message
    file = os.memfd_create("certificate", os.MFD_CLOEXEC)  # the ssl module reads files only
    with open(file, "wb") as pem:
        pem.write(security.private_key + b"\n" + security.certificate)
        pem.flush()
        context.load_cert_chain(f"/proc/self/fd/{file}")
    return context.wrap_socket(connection, server_side=True)


def _encrypted(connection: socket.socket, security: ServerSecurity) -> socket.socket:
    connection.settimeout(_SECONDS)
    if security.certificate is None:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it must be one certificate, compared below
    try:
        encrypted = context.wrap_socket(connection)
    except ssl.SSLEOFError:
        raise
    except ssl.SSLError as error:
        raise ConfigError(
            "learner host 0 has no --tls_cert, and this host has: start all hosts with the same"
        ) from error
    begin, end, _ = security.certificate.decode("ascii").partition("-----END CERTIFICATE-----")
    own = ssl.PEM_cert_to_DER_cert(begin[begin.index("-----BEGIN") :] + end)
    if encrypted.getpeercert(binary_form=True) != own:
        encrypted.close()
        raise ConfigError("learner host 0 has another --tls_cert than this host: start all hosts with the same")
    return encrypted
