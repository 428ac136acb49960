"""When credentials are needed, where they come from, and that a token stays secret."""

import dataclasses

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


@pytest.mark.parametrize(
    ("security", "word"),
    [
        (ServerSecurity(), "--tls_cert, --tls_key, --token_file"),
        (ServerSecurity(**TLS), "--token_file"),
        (ServerSecurity(**TOKEN), "--tls_cert, --tls_key"),
        (ClientSecurity(**TOKEN), "--tls_ca"),
    ],
)
def test_nobody_in_the_network_gets_in_or_reads_the_token_unless_it_is_insecure(security, word):
    with pytest.raises(SecurityError, match=f"add {word}, or --insecure"):
        security.check(OPEN)
    security.check(LOCAL)
    dataclasses.replace(security, insecure=True).check(OPEN)


def test_with_tls_and_a_token_any_address_will_do():
    ServerSecurity(**TLS, **TOKEN).check(OPEN)
    ClientSecurity(**TOKEN, authorities=b"ca").check(OPEN)
    ClientSecurity().check(OPEN)


def test_certificates_of_actors_need_tls_on_both_sides():
    with pytest.raises(SecurityError, match="--tls_client_ca needs TLS: add --tls_cert, --tls_key"):
        ServerSecurity(client_authorities=b"ca").check(LOCAL)
    with pytest.raises(SecurityError, match="--tls_cert needs TLS: add --tls_ca"):
        ClientSecurity(**TLS).check(LOCAL)


def test_a_proxy_must_be_named_and_does_not_see_the_token(monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SecurityError, match="--proxy needs the proxy.s URL in one of grpc_proxy, https_proxy"):
        ClientSecurity(proxy=True).check(LOCAL)
    monkeypatch.setenv("http_proxy", "http://localhost:1")
    ClientSecurity(proxy=True).check(LOCAL)
    with pytest.raises(SecurityError, match="the token would go to localhost:1 in plain text"):
        ClientSecurity(**TOKEN, proxy=True).check(LOCAL)


def test_a_token_comes_from_the_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token() is None
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert read_token() == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert read_token(str(file)) == "from-file"


def test_a_token_that_everybody_on_the_machine_can_read_gets_a_warning(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text("swordfish")
    for mode, warnings in ((0o600, 0), (0o640, 0), (0o644, 1)):
        file.chmod(mode)
        read_token(str(file))
        assert len(caplog.records) == warnings
    assert "chmod 600" in caplog.text


@pytest.mark.parametrize("content", [b"\n", b"two words", b"\xff\xfe", b"words" * 1000])
def test_an_unusable_token_is_refused_without_being_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SecurityError, match="--token_file .* must hold one line") as refusal:
        read_token(str(file))
    assert "words" not in str(refusal.value)


@pytest.mark.parametrize(
    ("read", "flag", "word"),
    [
        (read_token, "--token_file", "one line"),
        (lambda path: read_certificate(path, path), "--tls_cert", "certificate"),
        (lambda path: read_certificate(path, None), "--tls_key is missing", "--tls_key is missing"),
        (lambda path: read_certificate(None, path), "--tls_cert is missing", "--tls_cert is missing"),
        (read_authorities, "--tls_ca", "certificate"),
    ],
)
def test_files_that_are_missing_or_hold_something_else_are_refused(tmp_path, read, flag, word):
    with pytest.raises(SecurityError, match=flag):
        read(str(tmp_path / "missing"))
    for text in ("nothing of the kind", ""):
        (tmp_path / "file").write_text(text)
        with pytest.raises(SecurityError, match=word):
            read(str(tmp_path / "file"))


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
