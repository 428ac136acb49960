"""Authentication of learner and actors: TLS, a shared secret (the token), and the rules for when each is required.

Without them, anyone who can reach a learner can feed it arbitrary experience. A unix socket and the loopback interface
need neither; any other address needs both, unless the user declares the network trusted (`insecure`). The token comes
from a file or the environment variable SEED_RL_TOKEN, never from the command line, which other users of the machine
can see. A proxy of an actor comes from the environment, too.
"""

import dataclasses
import hmac
import logging
import os
import ssl
import stat

import grpc

from seed_rl.errors import UsageError
from seed_rl.system.files import explaining
from seed_rl.transport.address import Address
from seed_rl.transport.protocol import Metadata, Refusal, Refused

_log = logging.getLogger(__name__)

TOKEN_VARIABLE = "SEED_RL_TOKEN"
_METADATA_KEY = "authorization"
_PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")  # that gRPC reads, in this order
_LONGEST_TOKEN = 4096  # gRPC takes about 8,000 bytes of metadata


class SecurityError(UsageError):
    """Missing, unusable or insufficient credentials; the message names the flags."""


def read_token(token_file: str | None = None) -> str | None:
    """Return the shared secret from a file, else from the environment variable SEED_RL_TOKEN, else None."""
    source = f"--token_file {token_file}" if token_file else TOKEN_VARIABLE
    given = _read(token_file, "--token_file") if token_file else os.environb.get(TOKEN_VARIABLE.encode(), b"")
    token = given.decode("utf-8", "replace").strip()
    if not (token or token_file):
        return None
    if not 1 <= len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        expected = f"one line of at most {_LONGEST_TOKEN:,} printable ASCII characters without spaces"
        raise SecurityError(f"{source} must hold {expected}, got {len(token):,} characters")
    if token_file and os.stat(token_file).st_mode & stat.S_IROTH:
        _log.warning("everybody on this machine can read %s: chmod 600 keeps the token secret", token_file)
    return token


def read_certificate(cert_file: str | None, key_file: str | None) -> tuple[bytes | None, bytes | None]:
    """Return the contents of PEM files: a certificate chain and its unencrypted private key, if any."""
    if not cert_file and not key_file:
        return None, None
    if not cert_file or not key_file:
        missing = "--tls_key" if cert_file else "--tls_cert"
        raise SecurityError(f"TLS needs both --tls_cert and --tls_key: {missing} is missing")
    certificate, key = _read(cert_file, "--tls_cert"), _read(key_file, "--tls_key")
    unusable = f"--tls_cert {cert_file} and --tls_key {key_file} aren't a certificate and its unencrypted key in PEM"
    with explaining(SecurityError, unusable, OSError, ValueError):  # gRPC would only say that it can't listen
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, key_file, password=lambda: "")
    return certificate, key


def read_authorities(file: str | None, flag: str = "--tls_ca") -> bytes | None:
    """Return a PEM file's authorities that the other side's certificate needs; None without a file."""
    if not file:
        return None
    authorities = _read(file, flag)
    with explaining(SecurityError, f"{flag} {file} holds no certificate in PEM", ssl.SSLError, ValueError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities.decode("ascii"))
    return authorities


@dataclasses.dataclass(frozen=True, repr=False)  # secrets stay out of logs
class ServerSecurity:
    """A learner's own credentials, and the token that it requires from callers."""

    certificate: bytes | None = None
    """PEM of the learner's certificate, followed by any intermediate ones; None for plain text."""
    private_key: bytes | None = None
    """PEM of the certificate's unencrypted key."""
    token: str | None = None
    """The shared secret that every call must carry, from `read_token`."""
    insecure: bool = False
    """Whether to allow any address without TLS or a token."""
    client_authorities: bytes | None = None
    """PEM of the authorities that must vouch for the certificates of callers; None: callers need none."""

    def check(self, address: Address) -> None:
        """Raise SecurityError unless the credentials suffice for listening on an address."""
        if self.client_authorities and not self.certificate:
            raise SecurityError("--tls_client_ca needs TLS: add --tls_cert, --tls_key")
        missing = ([] if self.certificate else ["--tls_cert", "--tls_key"]) + ([] if self.token else ["--token_file"])
        if missing and not address.is_local and not self.insecure:
            remedy = f"add {', '.join(missing)}, or --insecure if the network is trusted"
            raise SecurityError(f"listening on {address} lets other machines in: {remedy}")

    def credentials(self) -> grpc.ServerCredentials | None:
        """Return gRPC's credentials for TLS, or None for plain text."""
        if self.certificate is None or self.private_key is None:
            return None
        own, clients = [(self.private_key, self.certificate)], self.client_authorities
        return grpc.ssl_server_credentials(own, clients, require_client_auth=clients is not None)

    def check_token(self, metadata: Metadata) -> None:
        """Raise `Refused` unless the metadata of a call carry the token."""
        if not self.token:
            return
        given = dict(metadata).get(_METADATA_KEY)
        if given is None:
            sentence = f"the learner asks for a token: give the actor --token_file or {TOKEN_VARIABLE}"
            raise Refused(Refusal.UNAUTHENTICATED, sentence)
        if not hmac.compare_digest(str(given).encode(), f"Bearer {self.token}".encode()):
            raise Refused(Refusal.UNAUTHENTICATED, "the actor's token isn't the learner's")


@dataclasses.dataclass(frozen=True, repr=False)  # secrets stay out of logs
class ClientSecurity:
    """How an actor and a learner authenticate each other, from the actor's side."""

    authorities: bytes | None = None
    """PEM of the authorities that may sign the learner's certificate, or of that one itself; None for plain text."""
    token: str | None = None
    """The shared secret sent with every call, from `read_token`."""
    insecure: bool = False
    """Whether the token may cross a network in plain text."""
    server_name: str | None = None
    """The name in the learner's certificate, if it differs from the host in its address."""
    certificate: bytes | None = None
    """PEM of the actor's certificate, for a learner that asks for one."""
    private_key: bytes | None = None
    """PEM of its unencrypted key."""
    proxy: bool = False
    """Whether to connect through the HTTP proxy that the environment names."""

    def check(self, address: Address) -> None:
        """Raise SecurityError if a token would cross a network in plain text, or a certificate or proxy has no use."""
        if self.certificate and not self.authorities:
            raise SecurityError("--tls_cert needs TLS: add --tls_ca")
        if self.proxy and not any(map(os.environ.get, _PROXY_VARIABLES)):
            raise SecurityError(f"--proxy needs the proxy's URL in one of {', '.join(_PROXY_VARIABLES)}")
        is_near = address.is_local and not self.proxy
        if self.token and not self.authorities and not self.insecure and not is_near:
            remedy = "add --tls_ca, or --insecure if the network is trusted"
            raise SecurityError(f"the token would go to {address} in plain text: {remedy}")

    def channel(self, target: str, options: list[tuple[str, int]]) -> grpc.Channel:
        """Return a channel to a learner, with TLS if there are authorities."""
        if not self.authorities:
            return grpc.insecure_channel(target, options)
        name = [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []
        credentials = grpc.ssl_channel_credentials(self.authorities, self.private_key, self.certificate)
        return grpc.secure_channel(target, credentials, [*options, *name])

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ((_METADATA_KEY, f"Bearer {self.token}"),) if self.token else ()


def _read(path: str, flag: str) -> bytes:
    with explaining(SecurityError, f"cannot read {flag} {path}"), open(path, "rb") as file:
        return file.read()
