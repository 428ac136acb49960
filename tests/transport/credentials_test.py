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

LOCAL, OPEN = parse_address("localhost:1"), parse_address("0.0.0.0:1")
TLS = {"certificate": b"cert", "private_key": b"key"}
TOKEN = {"token": "swordfish"}


def test_a_local_address_needs_no_credentials():
    ServerSecurity().check(LOCAL)
    ClientSecurity(**TOKEN).check(LOCAL)


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({}, "add --tls_cert, --tls_key, --token_file, or --insecure"),
        (TLS, "add --token_file, or --insecure"),
        (TOKEN, "add --tls_cert, --tls_key, or --insecure"),
    ],
)
def test_a_learner_that_others_can_reach_needs_tls_and_a_token(given, flags):
    with pytest.raises(SecurityError, match=f"listening on 0.0.0.0:1 lets other machines in: {flags}"):
        ServerSecurity(**given).check(OPEN)
    ServerSecurity(**given, insecure=True).check(OPEN)
    ServerSecurity(**TLS, **TOKEN).check(OPEN)


def test_a_token_crosses_no_network_in_plain_text():
    with pytest.raises(SecurityError, match="in plain text: add --tls_ca, or --insecure"):
        ClientSecurity(**TOKEN).check(OPEN)
    ClientSecurity(**TOKEN, insecure=True).check(OPEN)
    ClientSecurity(**TOKEN, authorities=b"ca").check(OPEN)
    ClientSecurity().check(OPEN)


def test_a_token_comes_from_the_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token() is None
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert read_token() == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert read_token(str(file)) == "from-file"


@pytest.mark.parametrize("content", [b"\n", b"two words", b"\xff\xfe", b"words" * 1000])
def test_an_unusable_token_is_refused_without_being_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(
        SecurityError, match="--token_file .* must hold one line of at most 4,096 printable ASCII"
    ) as refusal:
        read_token(str(file))
    assert "words" not in str(refusal.value)


def read_pair(path):
    return read_certificate(path, path)


@pytest.mark.parametrize(
    ("read", "unreadable", "odd"),
    [
        (read_token, "cannot read --token_file .*missing: No such file", "must hold one line"),
        (read_pair, "cannot read --tls_cert .*missing", "aren't a certificate and its unencrypted key"),
        (read_authorities, "cannot read --tls_ca .*missing", "holds no certificate"),
    ],
)
def test_files_that_cannot_be_read_or_hold_something_else_are_named(tmp_path, read, unreadable, odd):
    with pytest.raises(SecurityError, match=unreadable):
        read(str(tmp_path / "missing"))
    for text in ("nothing of the kind", ""):
        (tmp_path / "file").write_text(text)
        with pytest.raises(SecurityError, match=f"{tmp_path}/file.* {odd}"):
            read(str(tmp_path / "file"))


@pytest.mark.parametrize(("half", "missing"), [(("cert", None), "--tls_key"), ((None, "key"), "--tls_cert")])
def test_half_a_pair_of_files_is_refused(half, missing):
    with pytest.raises(SecurityError, match=f"TLS needs both --tls_cert and --tls_key: {missing} is missing"):
        read_certificate(*half)


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ((("authorization", "Bearer swordfis"),), "the actor's token isn't the learner's"),
        ((("authorization", b"Bearer sw\xf6rdfish"),), "the actor's token isn't the learner's"),
        ((("x", "Bearer swordfish"),), "the learner asks for a token: give the actor --token_file or SEED_RL_TOKEN"),
    ],
)
def test_calls_need_the_token_which_is_not_shown(metadata, sentence):
    server, client = ServerSecurity(**TOKEN), ClientSecurity(**TOKEN)
    server.check_token(client.metadata())
    ServerSecurity().check_token(metadata)
    with pytest.raises(Refused, match=sentence) as error:
        server.check_token(metadata)
    assert error.value.refusal is Refusal.UNAUTHENTICATED
    assert "swordfish" not in repr((server, client))
