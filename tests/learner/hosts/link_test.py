"""Learner hosts that connect, compare their settings, decide together, and notice when one is gone."""

import contextlib
import json
import logging
import re
import socket
import threading
import time

import numpy as np
import pytest

from seed_rl import config_files
from seed_rl.config_files import common_settings
from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.handshake import Stranger, equal, greet, introduce
from seed_rl.learner.hosts.link import NO_OTHERS, Agreed
from seed_rl.learner.hosts.rendezvous import rendezvous
from seed_rl.transport.address import AddressError
from seed_rl.transport.credentials import ServerSecurity, read_certificate
from tests.learner.hosts.conftest import NEVER, addresses, connect
from tests.transport.peers import self_signed


def agree(link, leave=False, ready=False, frames=0):
    return link.agree(leave=leave, ready=ready, env_frames=frames)


def test_an_update_needs_a_batch_on_every_host_and_one_host_ends_the_run(linked, everywhere):
    links = linked(3)
    for ready, update in ((True, True, False), False), ((True, True, True), True):
        frames = (640, 320, 0)
        assert everywhere(agree, links, [False] * 3, ready, frames) == [Agreed(False, update, 640)] * 3
    assert everywhere(agree, links, (False, True, False), [True] * 3) == [Agreed(True, False, 0)] * 3


def test_a_single_learner_agrees_with_itself():
    NO_OTHERS.compare({"batch_size": 16})
    assert agree(NO_OTHERS, ready=True, frames=5) == Agreed(False, True, 5)
    assert agree(NO_OTHERS, leave=True, ready=True) == Agreed(True, False, 0)


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        ({"kind": "A", "a": 1}, {"kind": "B", "b": 2}, "kind is 'A' on host 0 and 'B' on host 1"),
        ({"kind": "A", "a": 1}, {"kind": "A"}, "a is 1 on host 0 and None on host 1"),
        (
            common_settings(config_files.load(["catch/vtrace"])),
            common_settings(config_files.load(["catch/vtrace"], ["Experiment.batch_size = 32", "VTrace.hidden = 8"])),
            "agent.hidden is 64 on host 0 and 8 on host 1; batch_size is 16 on host 0 and 32 on host 1",
        ),
    ],
)
def test_every_host_names_the_settings_that_must_not_differ(everywhere, first, second, differences):
    """Names that only one host has matter if nothing else differs."""
    where = addresses(2)
    for error in everywhere(lambda index, own: rendezvous(Hosts(where, index), own, NEVER), (0, 1), (first, second)):
        assert type(error) is ConfigError
        assert str(error) == f"learner hosts must be started with the same settings: {differences}"


def test_settings_of_actors_logs_and_queues_may_differ(linked, everywhere):
    bindings = ["Actors.num_actors = 3", "Logs.metrics_interval_s = 1", "Inference.max_wait_ms = 9"]
    settings = [common_settings(config_files.load(["catch/vtrace"], each)) for each in ([], bindings)]
    assert everywhere(lambda link, own: link.compare(own), linked(2), settings) == [None, None]


@pytest.fixture(params=["plain", "tls"])
def security(request, tmp_path):
    return ServerSecurity(*read_certificate(*self_signed("run", tmp_path)) if request.param == "tls" else ())


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_and_the_first_hosts_arrays_are_the_same_bits_on_all_hosts(linked, everywhere, security, count):
    links, rng = linked(count, security), np.random.default_rng(0)
    for size, dtype in ((1, "float32"), (3, "int64"), (1_000_003, "float32")):  # the last exceeds what sockets buffer
        arrays = list(rng.normal(scale=1000, size=(count, size)).astype(dtype))
        first, *others = everywhere(lambda link, own: link.sum(own), links, arrays)
        np.testing.assert_allclose(first, np.sum(arrays, axis=0), rtol=1e-4, atol=1e-2)
        for other in others:
            np.testing.assert_array_equal(first, other)
    mixed = [[np.float32(index), np.full((2, 3), index), np.array([index == 0])] for index in range(count)]
    for received in everywhere(lambda link, own: link.of_first(own), links, mixed):
        for array, expected in zip(received, mixed[0], strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)


def test_a_single_learner_sums_with_itself():
    np.testing.assert_array_equal(NO_OTHERS.sum(np.arange(3)), np.arange(3))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_host_ends_the_sum_that_waits_for_it(linked, pool, security, lost):
    links = linked(3, security)
    left = [link for index, link in enumerate(links) if index != lost]

    def wait_and_end(link):
        with link:
            link.sum(np.ones(1_000_000))

    waiting = [pool.submit(wait_and_end, link) for link in left]
    links[lost].close()
    for each in waiting:
        assert type(error := each.exception(30)) is HostLost
        assert re.search(rf"learner host {lost} \(localhost:\d+\) is gone: start all 3 again", str(error))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_host_is_noticed_by_the_next_agreement(linked, lost):
    links = linked(2)
    left = links[1 - lost]
    links[lost].close()
    with pytest.raises(HostLost, match=rf"learner host {lost} \(localhost:\d+\) is gone: start all 2 again"):
        agree(left)
    assert agree(left, leave=True).leave, "a host that ends needs no other for it"


def test_the_other_hosts_receive_the_reason_of_a_failure(everywhere):
    where = addresses(3)

    def run(index):
        with rendezvous(Hosts(where, index), {}, NEVER) as link:
            if index == 1:
                raise ConfigError("no such replay")
            agree(link)

    failed = list(map(str, everywhere(run, range(3))))
    assert failed[0] == "learner host 1 has ended: no such replay"
    assert failed[1] == "no such replay"
    assert failed[2] == f"learner host 0 has ended: {failed[0]}"


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_host_that_ends_does_not_wait_for_a_busy_one_which_learns_of_it_later(linked, leaver):
    links = linked(2)
    links[leaver].leave_seconds = 0.1
    assert agree(links[leaver], leave=True).leave
    links[leaver].close()
    assert agree(links[1 - leaver], ready=True).leave


@pytest.mark.parametrize(
    ("index", "sentence"), [(0, r"learner host 1 \(localhost:\d+\) did not connect"), (1, "learner host 0")]
)
def test_the_rendezvous_has_a_time_limit(index, sentence):
    with pytest.raises(HostLost, match=sentence):
        connect(Hosts(addresses(2), index), seconds=0.1)


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
    third = pool.submit(connect, Hosts(where, 2))
    for each in (first, second, third):
        each.result(30).close()
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
    for each in (first, second, pool.submit(connect, Hosts(where, 2))):
        each.result(30).close()


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
    third = pool.submit(connect, Hosts(where, 2))
    for each in (first, second, third):
        each.result(30).close()


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
