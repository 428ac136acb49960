"""Learner hosts that find each other and show who they are, whoever else connects."""

import contextlib
import json
import logging
import socket
import threading
import time

import numpy as np
import pytest

from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.handshake import Stranger, equal, greet, introduce
from seed_rl.learner.hosts.link import Agreed
from seed_rl.transport.address import AddressError
from seed_rl.transport.credentials import SecurityError, ServerSecurity, read_certificate
from tests.learner.hosts.conftest import addresses, agree, connect
from tests.transport.peers import self_signed


@pytest.mark.parametrize(
    ("index", "sentence"), [(0, r"learner host 1 \(localhost:\d+\) did not connect"), (1, "learner host 0")]
)
def test_the_rendezvous_has_a_time_limit(index, sentence):
    with pytest.raises(HostLost, match=sentence):
        connect(Hosts(addresses(2), index), seconds=0.1)


def test_a_host_that_other_machines_can_reach_needs_credentials_or_a_flag_that_says_so():
    public = Hosts(tuple(address.replace("localhost", "0.0.0.0") for address in addresses(2)), 1)
    with pytest.raises(SecurityError, match=r"0.0.0.0:\d+ lets other machines in: add .*--token_file, or --insecure"):
        connect(public)
    with pytest.raises(HostLost):
        connect(public, security=ServerSecurity(insecure=True), seconds=0.1)


@pytest.mark.parametrize("index", [0, 1])
def test_the_rendezvous_can_be_stopped(index, pool):
    stop = threading.Event()
    waiting = pool.submit(connect, Hosts(addresses(2), index), stop)
    stop.set()
    with waiting.result(30) as link:
        assert link is None


@pytest.fixture
def first_and_second(pool, caplog):
    """Hosts 0 and 1 of 3 that are connected and wait for the last, with the event that stops host 1."""
    caplog.set_level(logging.INFO, "seed_rl")
    where, stop = addresses(3), threading.Event()
    futures = pool.submit(connect, Hosts(where, 0)), pool.submit(connect, Hosts(where, 1), stop)
    deadline = time.monotonic() + 30
    while "learner host 1 is connected" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return where, *futures, stop


def close_when_all_are_linked(*futures):
    """Close links after all have theirs: a host whose neighbour closes before that has lost it."""
    for link in [each.result(30) for each in futures]:
        link.close()


def test_strangers_and_restarted_hosts_do_not_disturb_a_rendezvous(first_and_second, pool, everywhere):
    where, first, second, stop = first_and_second
    stop.set()
    with second.result(30) as link:
        assert link is None
    port = int(where[0].rpartition(":")[2])
    with socket.create_connection(("localhost", port)):  # is silent until the end
        nested, far = b"[" * 99_999 + b"\n", b'{"learner_host": 9, "learner_hosts": []}\n'
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b"?\n", b"[", b"", nested, far, b"\x16\x03\x01"):
            with socket.create_connection(("localhost", port)) as stranger:
                stranger.sendall(words)
        links = [first, *(pool.submit(connect, Hosts(where, index)) for index in (1, 2))]
        links = [each.result(30) for each in links]
    assert everywhere(agree, links, [False] * 3, [True] * 3) == [Agreed(False, True, 0)] * 3
    for each in links:
        each.close()


@pytest.mark.parametrize("with_tls", [False, True])
def test_what_was_received_before_an_abort_is_never_taken_for_numbers(pool, tmp_path, with_tls):
    """With TLS, a socket that is shut down in the usual way gives undeciphered bytes to a thread that reads."""
    certificate = read_certificate(*self_signed("run", tmp_path)) if with_tls else (None, None)
    hosts, sent = addresses(2), np.arange(20_000, dtype=np.float32)
    for _ in range(5):
        with socket.create_server(("localhost", 0)) as listener:
            outer = socket.create_connection(listener.getsockname())
            first = pool.submit(greet, listener.accept()[0], Hosts(hosts, 0), ServerSecurity(*certificate), "run")
            peer, _ = introduce(outer, Hosts(hosts, 1), ServerSecurity(*certificate), "run")
        reader = first.result(30).peer
        for _ in range(3):
            peer.write_array(sent)
        np.testing.assert_array_equal(reader.read_array(np.empty_like(sent)), sent)
        reader.shutdown()
        with contextlib.suppress(OSError):  # or all of it
            np.testing.assert_array_equal(reader.read_array(np.empty_like(sent)), sent)
        for each in (peer, reader):
            each.close()


def test_a_host_of_another_start_does_not_become_a_neighbour(first_and_second, pool):
    where, first, second, _ = first_and_second
    close_when_all_are_linked(first, second, pool.submit(connect, Hosts(where, 2)))
    with socket.create_server(("localhost", 0)) as listener:
        outer = socket.create_connection(listener.getsockname())
        greeted = pool.submit(greet, listener.accept()[0], Hosts(where, 0), ServerSecurity(), "ring")
        introduce(outer, Hosts(where, 1), ServerSecurity(), "run")[0].close()
        with pytest.raises(Stranger, match="learner host 1 connects for the run while this host waits for the ring"):
            greeted.result(30)


def test_an_index_that_no_host_has_is_refused(first_and_second, pool):
    where, first, second, _ = first_and_second
    port = int(where[0].rpartition(":")[2])
    for index in (3, -1, 0, True, 1.0, None, [1]):
        with socket.create_connection(("localhost", port)) as stranger, stranger.makefile("rb") as lines:
            stranger.sendall(b'{"challenge": "0"}\n')
            assert "challenge" in json.loads(lines.readline())
            hello = {"learner_host": index, "learner_hosts": where, "purpose": "run", "proof": ""}
            stranger.sendall(json.dumps(hello).encode() + b"\n")
            assert lines.readline() == b""
    close_when_all_are_linked(first, second, pool.submit(connect, Hosts(where, 2)))


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("one", None, "learner host 0 asks for a token: start host 1 with its --token_file, or SEED_RL_TOKEN"),
        ("one", "two", "the token of learner host 1 isn't that of host 0"),
        (None, "two", "learner host 1 has a token and host 0 has none: start all hosts with the same --token_file"),
    ],
)
def test_hosts_without_the_runs_token_are_refused_in_a_sentence_on_both_sides(pool, caplog, first, second, sentence):
    where, stop = addresses(2), threading.Event()
    waiting = pool.submit(connect, Hosts(where, 0), stop, ServerSecurity(token=first))
    with pytest.raises(ConfigError, match=f"^{sentence}$"):
        connect(Hosts(where, 1), security=ServerSecurity(token=second))
    stop.set()
    with waiting.result(30) as link:
        assert link is None, "anyone could have been refused"
    assert any(record.message.endswith(sentence) for record in caplog.records)


def test_a_host_that_does_not_know_the_token_cannot_be_host_0(pool):
    def pretend(listener):
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            lines.readline()
            connection.sendall(b'{"challenge": "0"}\n')
            lines.readline()
            connection.sendall(b'{"welcome": ""}\n')
            lines.readline()

    with socket.create_server(("localhost", 0)) as listener:
        where = (f"localhost:{listener.getsockname()[1]}", *addresses(1))
        pretending = pool.submit(pretend, listener)
        with pytest.raises(ConfigError, match="the token of learner host 0 isn't that of host 1"):
            connect(Hosts(where, 1), security=ServerSecurity(token="one"))
        pretending.result(30)


@pytest.mark.parametrize("with_tls", [False, True])
def test_the_token_is_never_sent_and_with_a_certificate_nothing_can_be_read_on_the_way(with_tls, pool, tmp_path):
    certificate = read_certificate(*self_signed("run", tmp_path)) if with_tls else (None, None)
    security, hosts, passed = ServerSecurity(*certificate, token="swordfish"), addresses(2), []

    def pass_on(source, sink):
        while data := source.recv(1 << 16):
            passed.append(data)
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    with socket.create_server(("localhost", 0)) as outside, socket.create_server(("localhost", 0)) as inside:
        outer = socket.create_connection(outside.getsockname())
        inner = socket.create_connection(inside.getsockname())
        between = outside.accept()[0]
        ways = pool.submit(pass_on, between, inner), pool.submit(pass_on, inner, between)
        first = pool.submit(greet, inside.accept()[0], Hosts(hosts, 0), security, "run")
        peer, expected = introduce(outer, Hosts(hosts, 1), security, "run")
        greeted = first.result(30)
    assert greeted.number == 1
    assert equal(greeted.welcome, expected)
    peer.write({"env_frames": 5})
    assert greeted.peer.read() == {"env_frames": 5}
    for each in (peer, greeted.peer):
        each.close()
    for way in ways:
        way.result(30)
    for each in (inner, between):
        each.close()
    assert b"swordfish" not in b"".join(passed)
    assert (b"env_frames" in b"".join(passed)) != with_tls


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (True, False, "learner host 0 has --tls_cert: start all hosts with the same --tls_cert and --tls_key"),
        (False, True, "learner host 0 has no --tls_cert, and this host has: start all hosts with the same"),
        (True, "other", "learner host 0 has another --tls_cert than this host: start all hosts with the same"),
    ],
)
def test_hosts_have_the_same_certificate(pool, tmp_path, first, second, sentence):
    ours, others = (ServerSecurity(*read_certificate(*self_signed(name, tmp_path))) for name in ("run", "other"))
    securities = {True: ours, "other": others, False: ServerSecurity()}
    where, stop = addresses(2), threading.Event()
    waiting = pool.submit(connect, Hosts(where, 0), stop, securities[first])
    with pytest.raises(ConfigError, match=sentence):
        connect(Hosts(where, 1), security=securities[second])
    stop.set()
    with waiting.result(30) as link:
        assert link is None


def test_two_processes_cannot_be_the_same_host(first_and_second, pool):
    where, first, second, _ = first_and_second
    with pytest.raises(AddressError, match="address already in use"):
        connect(Hosts(where, 1))
    connection = socket.create_connection(("localhost", int(where[0].rpartition(":")[2])))
    from_elsewhere, _ = introduce(connection, Hosts(where, 1), ServerSecurity(), "run")
    refused = {"refused": "there is a learner host 1 already: each needs its own --learner_host"}
    assert from_elsewhere.read() == refused
    from_elsewhere.close()
    close_when_all_are_linked(first, second, pool.submit(connect, Hosts(where, 2)))


def test_hosts_with_different_lists_of_hosts_are_refused(everywhere):
    where = addresses(3)
    errors = everywhere(lambda hosts: connect(hosts), [Hosts(where, 0), Hosts(where[:2], 1)])
    assert {type(error) for error in errors} == {ConfigError}
    assert {str(error) for error in errors} == {
        f"--learner_hosts is {','.join(where)} on host 0 and {','.join(where[:2])} on the one that was started with "
        "--learner_host=1"
    }


@pytest.mark.parametrize("index", [0, 1])
def test_a_port_in_use_and_a_malformed_address_are_refused(index):
    with socket.create_server(("", 0)) as taken:
        where = list(addresses(2))
        where[index] = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(AddressError, match=r"cannot listen on port \d+: address already in use"):
            connect(Hosts(tuple(where), index))
    with pytest.raises(AddressError, match="unix:/one"):
        connect(Hosts(("unix:/one", "localhost:1"), index))
