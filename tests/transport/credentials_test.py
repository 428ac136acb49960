"""When credentials are needed, where they come from, and that a token stays secret."""

import pytest

from seed_rl.transport.address import parse_address
from seed_rl.transport.credentials import (
    TOKEN_VARIABLE,
    ClientSecurity,
    SecurityError,
    ServerSecurity,
    read_authorities,
    read_certificate,
    read_token,
)
from seed_rl.transport.protocol import Refusal, Refused

LOCAL = ["unix:/some/socket", "localhost:1", "127.0.0.1:1", "[::1]:1"]
OPEN = ["0.0.0.0:1", "[::]:1", "10.1.2.3:1", "learner.example.org:1"]
TLS = {"certificate": b"cert", "private_key": b"key"}
TOKEN = {"token": "swordfish"}


@pytest.mark.parametrize("address", LOCAL)
@pytest.mark.parametrize("given", [{}, TLS, TOKEN, {**TLS, **TOKEN}], ids=str)
def test_local_addresses_need_no_credentials(address, given):
    ServerSecurity(**given).check(parse_address(address))
    ClientSecurity(token=given.get("token")).check(parse_address(address))


@pytest.mark.parametrize("address", OPEN)
@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({}, "add --tls_cert, --tls_key, --token_file, or --insecure"),
        (TLS, "add --token_file, or --insecure"),
        (TOKEN, "add --tls_cert, --tls_key, or --insecure"),
    ],
)
def test_a_learner_that_others_can_reach_needs_tls_and_a_token(address, given, flags):
    with pytest.raises(SecurityError, match=flags):
        ServerSecurity(**given).check(parse_address(address))
    ServerSecurity(**given, insecure=True).check(parse_address(address))
    ServerSecurity(**TLS, **TOKEN).check(parse_address(address))


@pytest.mark.parametrize(("half", "missing"), [(("cert", None), "--tls_key"), ((None, "key"), "--tls_cert")])
def test_half_a_pair_of_files_is_refused(half, missing):
    with pytest.raises(SecurityError, match=f"TLS needs both --tls_cert and --tls_key: {missing} is missing"):
        read_certificate(*half)


@pytest.mark.parametrize("address", OPEN)
def test_a_token_crosses_no_network_in_plain_text(address):
    address = parse_address(address)
    with pytest.raises(SecurityError, match="in plain text: add --tls_ca, or --insecure"):
        ClientSecurity(**TOKEN).check(address)
    ClientSecurity(**TOKEN, insecure=True).check(address)
    ClientSecurity(**TOKEN, authorities=b"ca").check(address)
    ClientSecurity().check(address)


def test_a_token_comes_from_the_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token() is None
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert read_token() == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert read_token(str(file)) == "from-file"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", "tökén".encode(), b"\xff\xfe"])
def test_an_unusable_token_is_refused_without_being_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SecurityError, match="--token_file .* must hold one line of printable ASCII") as refusal:
        read_token(str(file))
    assert "words" not in str(refusal.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(SecurityError, match=f"cannot read --token_file {missing}: No such file"):
        read_token(missing)
    with pytest.raises(SecurityError, match=f"cannot read --tls_cert {missing}"):
        read_certificate(missing, missing)
    with pytest.raises(SecurityError, match=f"cannot read --tls_ca {missing}"):
        read_authorities(missing)


def test_files_that_hold_something_else_are_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("nothing of the kind")
    with pytest.raises(SecurityError, match="aren't a certificate and its unencrypted key"):
        read_certificate(str(file), str(file))
    with pytest.raises(SecurityError, match="holds no certificate"):
        read_authorities(str(file))


@pytest.mark.parametrize("security", [ServerSecurity(token="swordfish"), ClientSecurity(token="swordfish")])
def test_a_token_is_not_shown(security):
    assert "swordfish" not in repr(security)


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ((("authorization", "Bearer swordfis"),), "the actor's token isn't the learner's"),
        ((("authorization", "Bearer swordfish2"),), "the actor's token isn't the learner's"),
        ((("authorization", "swordfish"),), "the actor's token isn't the learner's"),
        ((("authorization", b"Bearer sw\xf6rdfish"),), "the actor's token isn't the learner's"),
        ((("x", "Bearer swordfish"),), "the learner asks for a token: give the actor --token_file or SEED_RL_TOKEN"),
    ],
)
def test_calls_need_the_token(metadata, sentence):
    security = ServerSecurity(token="swordfish")
    security.check_token(ClientSecurity(token="swordfish").metadata())
    ServerSecurity().check_token(metadata)
    with pytest.raises(Refused, match=sentence) as error:
        security.check_token(metadata)
    assert error.value.refusal is Refusal.UNAUTHENTICATED
