"""Learner hosts that meet, compare what they are to train, decide together, and miss one another."""

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
from seed_rl.learner.hosts import link as link_module
from seed_rl.learner.hosts.link import NO_OTHERS, Agreed
from seed_rl.learner.hosts.meeting import meet, together
from seed_rl.transport.address import AddressError

NEVER = threading.Event()


def addresses(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    found = tuple(f"localhost:{each.getsockname()[1]}" for each in sockets)
    for each in sockets:
        each.close()
    return found


class Everywhere:
    """Runs a function for each host at the same time; gives what it returns or raises."""

    def __init__(self, pool):
        self._pool = pool

    def __call__(self, function, *arguments):
        futures = [self._pool.submit(function, *each) for each in zip(*arguments, strict=True)]
        return [self._outcome(future) for future in futures]

    def begin(self, function, *arguments):
        return self._pool.submit(function, *arguments)

    @staticmethod
    def _outcome(future):
        error = future.exception(30)
        return future.result() if error is None else error


@pytest.fixture
def everywhere():
    with ThreadPoolExecutor(4) as pool:
        yield Everywhere(pool)


@pytest.fixture
def linked(everywhere):
    """Hosts that have met."""
    with contextlib.ExitStack() as cleanup:

        def join(count):
            where = addresses(count)
            found = everywhere(lambda index: meet(Hosts(where, index), NEVER), range(count))
            for each in found:
                cleanup.callback(each.close)
            return found

        yield join


def agree(link, leave=False, ready=False, frames=0):
    return link.agree(leave=leave, ready=ready, env_frames=frames)


def test_an_update_is_made_when_all_have_a_batch_and_the_run_ends_when_one_says_so(linked, everywhere):
    links = linked(3)
    for ready, update in ((True, True, False), False), ((True, True, True), True):
        frames = (640, 320, 0)
        assert everywhere(agree, links, [False] * 3, ready, frames) == [Agreed(False, update, 640)] * 3
    assert everywhere(agree, links, (False, True, False), [True] * 3) == [Agreed(True, False, 0)] * 3


def test_a_single_learner_agrees_with_itself():
    NO_OTHERS.compare({"batch_size": 16})
    assert agree(NO_OTHERS, ready=True, frames=5) == Agreed(False, True, 5)
    assert agree(NO_OTHERS, leave=True, ready=True) == Agreed(True, False, 0)


def test_every_host_names_the_settings_that_differ_with_both_values(linked, everywhere):
    settings = [
        common_settings(config_files.load(["catch/vtrace"], bindings))
        for bindings in ([], ["Experiment.batch_size = 32", "VTrace.hidden = 8"])
    ]
    errors = everywhere(lambda link, own: link.compare(own), linked(2), settings)
    assert {type(error) for error in errors} == {ConfigError}
    assert {str(error) for error in errors} == {
        "learner hosts must be started with the same settings: agent.hidden is 64 on host 0 and 8 on host 1; "
        "batch_size is 16 on host 0 and 32 on host 1"
    }


def test_hosts_may_have_other_actors_logs_and_queues(linked, everywhere):
    other = ["Actors.num_actors = 3", "Logs.metrics_interval_s = 1", "Inference.max_wait_ms = 9"]
    settings = [common_settings(config_files.load(["catch/vtrace"], bindings)) for bindings in ([], other)]
    assert everywhere(lambda link, own: link.compare(own), linked(2), settings) == [None, None]
    assert "the version of seed_rl" in settings[0]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_host_that_vanishes_is_missed_by_what_agrees_and_by_what_watches(linked, lost):
    links = linked(2)
    left, missed = links[1 - lost], threading.Event()
    left.watch(missed.set)
    links[lost].close()
    assert missed.wait(30)
    with pytest.raises(HostLost, match=rf"learner host {lost} \(localhost:\d+\) is gone: start all 2 again"):
        agree(left)
    assert agree(left, leave=True).leave, "a host that is to end needs no other for it"


def test_a_host_that_fails_tells_the_others_why(everywhere):
    where = addresses(3)

    def run(index):
        with together(Hosts(where, index), {}, NEVER) as link:
            if index == 1:
                raise ConfigError("no such replay")
            agree(link)

    failed = list(map(str, everywhere(run, range(3))))
    assert failed[0] == "learner host 1 has ended: no such replay"
    assert failed[1] == "no such replay"
    assert failed[2] == f"learner host 0 has ended: {failed[0]}"


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_host_that_ends_does_not_wait_for_one_that_is_busy_which_hears_of_it_later(linked, leaver, monkeypatch):
    monkeypatch.setattr(link_module, "_LEAVE_SECONDS", 0.1)
    links = linked(2)
    assert agree(links[leaver], leave=True).leave
    links[leaver].close()
    assert agree(links[1 - leaver], ready=True).leave


@pytest.mark.parametrize(
    ("index", "sentence"), [(0, r"learner host 1 \(localhost:\d+\) did not"), (1, "learner host 0")]
)
def test_the_wait_for_the_others_ends_with_a_sentence(index, sentence):
    with pytest.raises(HostLost, match=sentence):
        meet(Hosts(addresses(2), index), NEVER, seconds=0.1)


@pytest.mark.parametrize("index", [0, 1])
def test_a_host_can_be_told_to_end_while_it_waits_for_the_others(index, everywhere):
    stop = threading.Event()
    waiting = everywhere.begin(meet, Hosts(addresses(2), index), stop)
    stop.set()
    assert waiting.result(30) is None


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_strangers_and_hosts_that_come_and_go_do_not_disturb_a_meeting(everywhere, caplog):
    caplog.set_level(logging.INFO, "seed_rl")
    where, stop = addresses(3), threading.Event()
    first = everywhere.begin(meet, Hosts(where, 0), NEVER)
    impatient = everywhere.begin(meet, Hosts(where, 1), stop)
    until(lambda: "learner host 1 is here" in caplog.text)
    stop.set()
    assert impatient.result(30) is None
    port = int(where[0].rpartition(":")[2])
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\0\0\0\1?", b""):
        with socket.create_connection(("localhost", port)) as stranger:
            stranger.sendall(words)
    links = [first, *(everywhere.begin(meet, Hosts(where, index), NEVER) for index in (1, 2))]
    links = [each.result(30) for each in links]
    assert everywhere(agree, links, [False] * 3, [True] * 3) == [Agreed(False, True, 0)] * 3
    for each in links:
        each.close()


def test_two_processes_cannot_be_the_same_host(everywhere, caplog):
    caplog.set_level(logging.INFO, "seed_rl")
    where, stop = addresses(3), threading.Event()
    waiting = [everywhere.begin(meet, Hosts(where, index), stop) for index in (0, 1)]
    until(lambda: "learner host 1 is here" in caplog.text)
    with pytest.raises(ConfigError, match="there is a learner host 1 already"):
        meet(Hosts(where, 1), NEVER)
    stop.set()
    assert [each.result(30) for each in waiting] == [None, None]


def test_hosts_with_other_lists_of_hosts_are_told(everywhere):
    where = addresses(3)
    errors = everywhere(lambda hosts: meet(hosts, NEVER), [Hosts(where, 0), Hosts(where[:2], 1)])
    assert {type(error) for error in errors} == {ConfigError}
    assert {str(error) for error in errors} == {
        f"--learner_hosts is {','.join(where)} on host 0 and {','.join(where[:2])} on the one that was started with "
        "--learner_host=1"
    }


@pytest.mark.parametrize("index", [0, 1])
def test_a_port_that_is_taken_and_an_address_that_is_none_are_told(index):
    with socket.create_server(("", 0)) as taken:
        where = list(addresses(2))
        where[index] = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(AddressError, match=r"cannot listen on port \d+: address already in use"):
            meet(Hosts(tuple(where), index), NEVER)
    with pytest.raises(AddressError, match="unix:/one"):
        meet(Hosts(("unix:/one", "localhost:1"), index), NEVER)
