"""The credentials of a run on Ray: a certificate and a token for learner and actors, in memory only."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seed_rl.transport.credentials import ClientSecurity, ServerSecurity

_NAME = "learner.seed-rl.internal"
_VALID = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Credentials:
    """Can be sent to other nodes, where it makes the security of a server or a client."""

    token: str | None = dataclasses.field(repr=False)
    insecure: bool = False
    certificate: bytes | None = dataclasses.field(default=None, repr=False)
    """PEM, of the learner; None: plain text."""
    server_name: str | None = None
    """The name in it."""
    private_key: bytes | None = dataclasses.field(default=None, repr=False)
    """PEM; only learners have it."""

    def of_actors(self) -> Credentials:
        """The part that actors get."""
        return dataclasses.replace(self, private_key=None)

    def server(self) -> ServerSecurity:
        """For a server in this process."""
        return ServerSecurity(_path(self.certificate), _path(self.private_key), self.token, self.insecure)

    def client(self) -> ClientSecurity:
        """For a client in this process."""
        return ClientSecurity(_path(self.certificate), self.token, self.insecure, self.server_name)


def credentials_of_run(given: ServerSecurity, server_name: str | None = None) -> Credentials:
    """The user's credentials; missing ones are made for this run alone, unless the network is trusted (`insecure`).

    Args:
      given: files and token of the user, checked.
      server_name: the name in the user's certificate.
    """
    token = given.token or (None if given.insecure else secrets.token_hex(32))
    if given.tls_cert_file and given.tls_key_file:
        certificate = pathlib.Path(given.tls_cert_file).read_bytes()
        return Credentials(
            token, given.insecure, certificate, server_name, pathlib.Path(given.tls_key_file).read_bytes()
        )
    if given.insecure:
        return Credentials(token, insecure=True, server_name=server_name)
    certificate, key = _new_certificate()
    return Credentials(token, False, certificate, _NAME, key)


def _new_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate that is bound to no address, and its key; PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def _path(content: bytes | None) -> str | None:
    """The path of a file that is on no disk and lasts as long as this process."""
    if content is None:
        return None
    file = os.memfd_create("seed_rl-pem")
    os.write(file, content)
    return f"/proc/self/fd/{file}"
