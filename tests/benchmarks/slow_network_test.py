"""The network that is only imitated: it delays by what it says, limits, keeps the order, and cuts."""

import socket
import threading
import time

import pytest

from benchmarks.slow_network import Line, SlowNetwork


class Echo:
    """Sends back what comes, on any number of connections."""

    def __init__(self, listener, address):
        self.address = address
        self.received = b""
        self._listener = listener
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            while data := connection.recv(1 << 16):
                self.received += data
                connection.sendall(data)
        except OSError:  # cut
            return
        finally:
            connection.close()


@pytest.fixture(params=["tcp", "unix"])
def echo(request, tmp_path):
    if request.param == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "echo.sock"))
        listener.listen()
        address = f"unix:{tmp_path}/echo.sock"
    with listener:
        yield Echo(listener, address)


@pytest.fixture
def network(echo):
    with SlowNetwork(echo.address) as running:
        yield running


def connect(network):
    host, _, port = network.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection, count):
    data = b""
    while len(data) < count:
        data += connection.recv(1 << 16)
    return data


def round_trip(connection, data=b"x"):
    began = time.monotonic()
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    assert receive(connection, len(data)) == data
    sender.join()
    return time.monotonic() - began


def test_a_round_trip_takes_two_delays_whatever_is_under_way(network):
    with connect(network) as connection:
        round_trip(connection)
        network.change(Line(delay_seconds=0.05))
        times = [round_trip(connection) for _ in range(5)]
        assert 0.1 <= min(times) < 0.2
        # A hundred times what a line could carry that waited for each answer: 4 MB in a few delays.
        data = bytes(range(256)) * 16384
        assert 0.1 <= round_trip(connection, data) < 0.1 * len(data) / 65536 / 4
        network.change(Line())
        assert round_trip(connection) < 0.1
    up, down, _ = network.passed()
    assert up == down == 1 + 5 + len(data) + 1


def test_a_limited_line_takes_as_long_as_the_bytes_need(network):
    network.change(Line(bytes_per_second=1_000_000))
    with connect(network) as connection:
        data = bytes(400_000)
        elapsed = round_trip(connection, data)
    # Both ways at the same time, but for a piece of 64 kB at the most, of which the first way makes the second wait.
    assert elapsed >= 0.4


def test_the_limit_is_shared_by_all_connections(network):
    network.change(Line(bytes_per_second=1_000_000))
    with connect(network) as one, connect(network) as other:
        began = time.monotonic()
        threads = [threading.Thread(target=round_trip, args=(each, bytes(200_000))) for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert time.monotonic() - began >= 0.4


def test_order_is_kept_when_the_delay_becomes_shorter(network):
    with connect(network) as connection:
        round_trip(connection)
        network.change(Line(delay_seconds=0.2))
        connection.sendall(b"first")
        while network.passed().up < 1 + len(b"first"):
            time.sleep(0.001)
        network.change(Line())
        connection.sendall(b"second")
        assert receive(connection, len(b"firstsecond")) == b"firstsecond"


def test_a_cut_ends_all_connections_on_both_sides_and_new_ones_may_come(network, echo):
    with connect(network) as one, connect(network) as other:
        for connection in (one, other):
            round_trip(connection)
        network.change(Line(delay_seconds=10))
        one.sendall(b"lost")
        assert network.passed().connections == 2
        assert network.cut() == 2
        for connection in (one, other):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        assert network.passed().connections == 0
    network.change(Line())
    with connect(network) as again:
        assert round_trip(again) < 5
        assert network.passed().connections == 1


def test_an_end_that_closes_is_told_to_the_other_after_what_it_sent(network, echo):
    network.change(Line(delay_seconds=0.02))
    with connect(network) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"", "both ways end together"
    deadline = time.monotonic() + 20
    while (network.passed().connections or echo.received != b"last words") and time.monotonic() < deadline:
        time.sleep(0.001)
    assert (network.passed().connections, echo.received) == (0, b"last words")


def test_without_a_server_connections_end(tmp_path):
    with (
        SlowNetwork(f"unix:{tmp_path}/nobody.sock") as network,
        pytest.raises(ConnectionResetError),  # when it connects already, or later
        connect(network) as connection,
    ):
        connection.recv(1)
