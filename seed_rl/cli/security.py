"""Flags and credentials of commands that serve actors."""

from __future__ import annotations

from absl import flags

from seed_rl.cli.flags import SHARED_CREDENTIALS, group, string
from seed_rl.transport.address import parse_address
from seed_rl.transport.credentials import ServerSecurity, read_certificate, read_token

SECURITY = group(
    "security",
    string("tls_cert", None, "PEM file with the certificate chain to show."),
    string("tls_key", None, "PEM file with the certificate's private key."),
    *SHARED_CREDENTIALS,
)


def server_security(values: flags.FlagValues, address: str) -> ServerSecurity:
    """Read the credentials that the flags name.

    Raises:
      SecurityError: they are unusable, or don't suffice for the address.
    """
    certificate, key = read_certificate(values.tls_cert, values.tls_key)
    security = ServerSecurity(certificate, key, read_token(values.token_file), values.insecure)
    if address:  # otherwise a unix socket that only this user can reach
        security.check(parse_address(address))
    return security
