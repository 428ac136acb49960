"""Where learner hosts are, and their wait for each other."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from seed_rl.extras.hosts.hosts import HostLost, Hosts, _listening, meet
from seed_rl.transport.address import AddressError
from tests.support.deadlines import within
from tests.support.ports import free_addresses


@pytest.mark.parametrize(
    ("addresses", "word"),
    [
        (("localhost:1",), "two or more"),
        (("localhost:1", "localhost:1"), "different addresses"),
        (("localhost:1", "unix:/two"), "HOST:PORT"),
        (("one.example:9000", "10.0.0.2:9000"), "--trusted_network"),
        (("127.0.0.1:1", "0.0.0.0:2"), "--trusted_network"),
    ],
)
def test_impossible_hosts_are_refused(addresses, word):
    with pytest.raises(ValueError, match=word):
        Hosts(addresses, 0)


def test_hosts_meet_when_all_listen_each_at_a_port_of_its_own():
    with socket.create_server(("localhost", 0)) as other, ThreadPoolExecutor(1) as pool:
        addresses = (f"localhost:{other.getsockname()[1]}", *free_addresses(2))
        stop = threading.Event()
        waiting = pool.submit(meet, Hosts(addresses, 1), stop)
        host, _, port = addresses[2].partition(":")
        with socket.create_server((host, int(port))):
            assert waiting.result(within(30))
        taken = f"cannot listen on port {other.getsockname()[1]}: address already in use$"
        with pytest.raises(AddressError, match=taken):
            meet(Hosts(addresses, 0), stop)


def test_a_waiting_host_answers_by_ipv4_and_ipv6():
    with _listening(0) as listener:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, listener.getsockname()[1]), within(5)).close()


def test_the_wait_for_the_others_has_a_limit_and_can_be_ended():
    addresses, stop = free_addresses(3), threading.Event()
    with pytest.raises(HostLost, match=rf"host 0 \({addresses[0]}\), .*host 2 \({addresses[2]}\) did not answer"):
        meet(Hosts(addresses, 1), stop, 0.3)
    stop.set()
    assert not meet(Hosts(addresses, 1), stop)
