"""Who may talk to a learner: TLS, a shared secret (the token), and the rules for when they are needed.

Without them, anyone who can reach a learner can feed it any experience. A unix socket and the loopback interface need
neither; any other address needs both, unless the user declares the network trusted (`insecure`). A token is read from a
file or from the environment variable SEED_RL_TOKEN, never from a command line, which other users of the machine can
see.
"""

from __future__ import annotations

import dataclasses
import hmac
import os
import ssl

import grpc

from seed_rl.transport.address import Address
from seed_rl.transport.protocol import Metadata, Refusal, Refused

TOKEN_VARIABLE = "SEED_RL_TOKEN"
_METADATA_KEY = "authorization"


class SecurityError(ValueError):
    """Credentials that are missing, unusable or insufficient; one sentence that names the flags."""


def read_token(token_file: str | None = None) -> str | None:
    """The shared secret from a file, else from the environment variable SEED_RL_TOKEN, else None.

    Raises:
      SecurityError: the file can't be read, or holds no usable token.
    """
    if token_file:
        source = f"--token_file {token_file}"
        token = _read(token_file, "--token_file").decode("utf-8", "replace").strip()
    else:
        source = TOKEN_VARIABLE
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SecurityError(f"{source} must hold one line of printable ASCII characters without spaces")
    return token


@dataclasses.dataclass(frozen=True)
class ServerSecurity:
    """The credentials that a learner demands of its callers."""

    tls_cert_file: str | None = None
    """PEM: the learner's certificate, followed by those of intermediate authorities."""
    tls_key_file: str | None = None
    """PEM: its private key, not encrypted."""
    token: str | None = dataclasses.field(default=None, repr=False)
    """Shared secret that every call must carry; see `read_token`."""
    insecure: bool = False
    """Allow any address without TLS or without a token."""

    def check(self, address: Address) -> None:
        """
        Raises:
          SecurityError: insufficient for listening on this address, or half a pair of files.
        """
        given = {"--tls_cert": self.tls_cert_file, "--tls_key": self.tls_key_file}
        lacking = [flag for flag, value in given.items() if not value]
        if len(lacking) == 1:
            raise SecurityError(f"TLS needs both --tls_cert and --tls_key: {lacking[0]} is missing")
        if not self.token:
            lacking.append("--token_file")
        if lacking and not address.is_local and not self.insecure:
            raise SecurityError(
                f"listening on {address} lets other machines in: add {', '.join(lacking)}, "
                f"or --insecure if the network is trusted"
            )

    def credentials(self) -> grpc.ServerCredentials | None:
        """gRPC's credentials for TLS, None for plain text.

        Raises:
          SecurityError: the files can't be read, or aren't a certificate and its key.
        """
        if not self.tls_cert_file or not self.tls_key_file:
            return None
        certificate, key = _read(self.tls_cert_file, "--tls_cert"), _read(self.tls_key_file, "--tls_key")
        try:  # gRPC would only say that it can't listen
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls_cert_file, self.tls_key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            raise SecurityError(
                f"--tls_cert {self.tls_cert_file} and --tls_key {self.tls_key_file} aren't a certificate and its "
                f"unencrypted key in PEM: {error}"
            ) from error
        return grpc.ssl_server_credentials([(key, certificate)])

    def check_token(self, metadata: Metadata) -> None:
        """
        Args:
          metadata: of a call.

        Raises:
          Refused: it doesn't carry the token.
        """
        if not self.token:
            return
        given = next((value for key, value in metadata if key == _METADATA_KEY), None)
        if given is None:
            sentence = f"the learner asks for a token: give the actor --token_file or {TOKEN_VARIABLE}"
            raise Refused(Refusal.UNAUTHENTICATED, sentence)
        if not hmac.compare_digest(given.encode() if isinstance(given, str) else given, _bearer(self.token).encode()):
            raise Refused(Refusal.UNAUTHENTICATED, "the actor's token isn't the learner's")


@dataclasses.dataclass(frozen=True)
class ClientSecurity:
    """How an actor authenticates itself to a learner, and the learner to it."""

    tls_ca_file: str | None = None
    """PEM: authorities that may sign the learner's certificate (or that certificate itself); None: plain text."""
    token: str | None = dataclasses.field(default=None, repr=False)
    """Shared secret sent with every call; see `read_token`."""
    insecure: bool = False
    """Allow the token to cross a network in plain text."""
    server_name: str | None = None
    """The name in the learner's certificate, where it isn't the host of its address."""

    def check(self, address: Address) -> None:
        """
        Raises:
          SecurityError: the token would cross a network in plain text.
        """
        if self.token and not self.tls_ca_file and not self.insecure and not address.is_local:
            raise SecurityError(
                f"the token would go to {address} in plain text: add --tls_ca, or --insecure if the network is trusted"
            )

    def credentials(self) -> grpc.ChannelCredentials | None:
        """gRPC's credentials for TLS, None for plain text.

        Raises:
          SecurityError: the file can't be read or holds no certificate.
        """
        if not self.tls_ca_file:
            return None
        authorities = _read(self.tls_ca_file, "--tls_ca")
        try:
            ssl.create_default_context(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise SecurityError(f"--tls_ca {self.tls_ca_file} holds no certificate in PEM: {error}") from error
        return grpc.ssl_channel_credentials(root_certificates=authorities)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Sent with every call."""
        return ((_METADATA_KEY, _bearer(self.token)),) if self.token else ()


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def _read(path: str, flag: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SecurityError(f"cannot read {flag} {path}: {error.strerror}") from error
