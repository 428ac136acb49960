"""Learner hosts that connect, compare their settings, decide together, and notice when one is gone."""

import contextlib
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seed_rl import config_files
from seed_rl.config_files import common_settings
from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.link import NO_OTHERS, Agreed
from seed_rl.learner.hosts.rendezvous import rendezvous
from seed_rl.transport.address import AddressError

NEVER = threading.Event()


def addresses(count):
    """Addresses that were free a moment ago."""
    with contextlib.ExitStack() as cleanup:
        sockets = [cleanup.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return tuple(f"localhost:{each.getsockname()[1]}" for each in sockets)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def everywhere(pool):
    """Calls a function for each host at the same time; gives what each call returns or raises."""

    def call(function, *arguments):
        futures = [pool.submit(function, *each) for each in zip(*arguments, strict=True)]
        return [future.exception(30) or future.result() for future in futures]

    return call


@pytest.fixture
def linked(everywhere):
    """Makes the links of hosts that have found each other."""
    with contextlib.ExitStack() as cleanup:

        def link(count):
            where = addresses(count)
            links = everywhere(lambda index: connect(Hosts(where, index)), range(count))
            return [cleanup.enter_context(contextlib.closing(each)) for each in links]

        yield link


def connect(hosts, stop=NEVER, **options):
    return rendezvous(hosts, {}, stop, **options)


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


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_host_is_noticed_at_once_and_by_the_next_agreement(linked, lost):
    links = linked(2)
    left, noticed = links[1 - lost], threading.Event()
    left.watch(noticed.set)
    links[lost].close()
    assert noticed.wait(30)
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
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b"?\n", b"[", b""):
            with socket.create_connection(("localhost", port)) as stranger:
                stranger.sendall(words)
        links = [first, *(pool.submit(connect, Hosts(where, index)) for index in (1, 2))]
        links = [each.result(30) for each in links]
    assert everywhere(agree, links, [False] * 3, [True] * 3) == [Agreed(False, True, 0)] * 3
    for each in links:
        each.close()


def test_two_processes_cannot_be_the_same_host(first_and_second, pool):
    where, first, second, _ = first_and_second
    with pytest.raises(ConfigError, match="there is a learner host 1 already"):
        connect(Hosts(where, 1))
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
