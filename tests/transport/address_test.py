"""Addresses, and files where a socket should be."""

import pytest

from seed_rl.transport.address import AddressError, check_free, parse_address, unused_port


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


@pytest.mark.parametrize(
    "text", ["", "unix:", ":80", "host:", "host:65536", "::1:80", "http://host:80", "a..b:80", "[learner]:80"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(AddressError, match=r"an address must be HOST:PORT, .*, got|the host must be a name or"):
        parse_address(text)


def test_a_server_that_starts_later_gets_a_port_that_systems_assign_to_no_connection():
    assert 20_000 <= unused_port() < 30_000


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(AddressError, match="isn't a socket"):
        check_free(parse_address(f"unix:{path}"))
    assert path.read_text() == "data"
