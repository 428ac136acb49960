"""docker/make_secrets.sh, and that its secrets stay where they are."""

from __future__ import annotations

import pathlib
import re
import ssl
import stat
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def certificate(directory, *options):
    command = ["openssl", "x509", "-in", directory / "cert.pem", "-noout", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_only_the_owner_can_read_them(secrets):
    assert sorted(path.name for path in secrets.iterdir()) == ["cert.pem", "key.pem", "token"]
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    for path in secrets.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_certificate_fits_its_key_and_names_the_learner(secrets):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets / "cert.pem", secrets / "key.pem")  # raises if they don't fit
    names = certificate(secrets, "-ext", "subjectAltName")
    assert re.search(r"DNS:learner, DNS:localhost, IP Address:127\.0\.0\.1", names)


def test_further_names_are_in_the_certificate(script):
    directory = script.directory / "more"
    assert script.run("make_secrets.sh", "--days=10", directory, "learner.example.org", "10.0.0.7").returncode == 0
    names = certificate(directory, "-ext", "subjectAltName")
    assert "DNS:learner.example.org" in names
    assert "IP Address:10.0.0.7" in names
    certificate(directory, "-checkend", str(9 * 24 * 3600))  # raises if it ends within nine days
    assert (
        "will expire"
        in subprocess.run(
            ["openssl", "x509", "-in", directory / "cert.pem", "-noout", "-checkend", str(11 * 24 * 3600)],
            capture_output=True,
            text=True,
        ).stdout
    )


def test_tokens_differ(secrets, script):
    directory = script.directory / "another"
    assert script.run("make_secrets.sh", directory).returncode == 0
    tokens = [(path / "token").read_text().strip() for path in (secrets, directory)]
    assert len(set(tokens)) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", token) for token in tokens)


def test_what_is_there_is_not_overwritten(secrets, script):
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert f"{secrets} is there already" in script.mistake("make_secrets.sh", secrets)
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a directory"),
        (["new", "--days=0"], "--days must be a whole number from 1 on, got '0'"),
        (["new", "--day=1"], "there is no --day; --help lists the flags"),
        (["new", "a,DNS:evil"], "a name must be a host name or an IP address, got 'a,DNS:evil'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_makes_nothing(arguments, sentence, script):
    assert sentence in script.mistake("make_secrets.sh", *arguments)
    assert not (script.directory / "new").exists()


def test_git_docker_and_the_source_distribution_leave_secrets_out():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv*", "runs", "docker/secrets", "**/*.pem", "**/token"} <= set(ignored)
    assert "/docker/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "prune docker/secrets" in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
