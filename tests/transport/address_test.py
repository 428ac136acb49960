"""Addresses, and files where a socket should be."""

import socket

import pytest

from seed_rl.transport import address
from seed_rl.transport.address import AddressError, clear_stale_socket, parse_address, unused_port


@pytest.mark.parametrize(
    ("text", "canonical", "is_local"),
    [
        ("unix:///some/socket", "unix:/some/socket", True),
        ("unix:x.sock", "unix:x.sock", True),
        ("localhost:80", "localhost:80", True),
        ("127.5.5.5:0", "127.5.5.5:0", True),
        ("[::1]:65535", "[::1]:65535", True),
        ("0.0.0.0:8470", "0.0.0.0:8470", False),
        ("[::]:8470", "[::]:8470", False),
        ("localhost.example.org:1", "localhost.example.org:1", False),
    ],
)
def test_addresses(text, canonical, is_local):
    address = parse_address(text)
    assert str(address) == canonical
    assert address.is_local == is_local


@pytest.mark.parametrize("text", ["", "unix:", ":80", "host:", "host:65536", "::1:80", "http://host:80", "h:¹"])
def test_other_texts_are_refused(text):
    with pytest.raises(AddressError, match=r"must be HOST:PORT, \[IPV6\]:PORT or unix:PATH, got"):
        parse_address(text)


@pytest.mark.parametrize("host", ["learner..example", "a" * 64, "[learner]", "[1::2::3]"])
def test_a_host_that_cannot_have_an_address_is_refused(host):
    with pytest.raises(AddressError, match="the host must be a name or an address"):
        parse_address(f"{host}:80")


def test_a_server_that_starts_later_gets_a_port_that_is_free_and_stays_so(monkeypatch):
    port = unused_port()
    assert 20_000 <= port < 30_000, "systems assign higher ones to connections"
    monkeypatch.setattr(address, "_UNASSIGNED", range(port, port + 1))
    with socket.create_server(("localhost", port)), pytest.raises(AddressError, match=f"from {port} to {port} is free"):
        unused_port()
    assert unused_port() == port


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(AddressError, match="isn't a socket"):
        clear_stale_socket(str(path))
    assert path.read_text() == "data"
