"""What a learner and the actors on other machines show each other: a certificate and a token, in memory only."""

from __future__ import annotations

import dataclasses
import datetime
import os
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seed_rl.transport.credentials import ClientSecurity, ServerSecurity

_NAME = "learner.seed-rl.internal"
_VALID = datetime.timedelta(days=365)
_CLOCKS_DIFFER = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Badge:
    """What an actor gets."""

    certificate: bytes | None = dataclasses.field(repr=False)
    """PEM: of the learner; None: plain text."""
    token: str | None = dataclasses.field(repr=False)
    insecure: bool
    server_name: str | None

    def security(self) -> ClientSecurity:
        """For a client in this process."""
        certificate = None if self.certificate is None else _in_memory(self.certificate)
        return ClientSecurity(certificate, self.token, self.insecure, self.server_name)


@dataclasses.dataclass(frozen=True)
class Keys:
    """What the learner gets."""

    badge: Badge
    """Of its actors."""
    private_key: bytes | None = dataclasses.field(repr=False)
    """PEM."""

    def security(self) -> ServerSecurity:
        """For a server in this process."""
        if self.badge.certificate is None or self.private_key is None:
            return ServerSecurity(token=self.badge.token, insecure=self.badge.insecure)
        files = _in_memory(self.badge.certificate), _in_memory(self.private_key)
        return ServerSecurity(*files, token=self.badge.token, insecure=self.badge.insecure)


def keys_of_run(given: ServerSecurity, server_name: str | None = None) -> Keys:
    """What the user gives, and for the rest a certificate and a token for this run alone.

    Args:
      given: files and token of the user, checked; with `insecure` nothing is added.
      server_name: the name in the user's certificate.
    """
    certificate = key = None
    if given.tls_cert_file and given.tls_key_file:
        certificate, key = _read(given.tls_cert_file), _read(given.tls_key_file)
    elif not given.insecure:
        certificate, key = _new_certificate()
        server_name = _NAME
    token = given.token or (None if given.insecure else secrets.token_hex(32))
    return Keys(Badge(certificate, token, given.insecure, server_name), key)


def _new_certificate() -> tuple[bytes, bytes]:
    """A certificate that signs itself and its key, PEM; it isn't bound to an address, as the token isn't."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def _in_memory(content: bytes) -> str:
    """A path, good in this process as long as it lives, of a file that is on no disk."""
    file = os.memfd_create("seed_rl-pem")
    os.write(file, content)
    return f"/proc/self/fd/{file}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
