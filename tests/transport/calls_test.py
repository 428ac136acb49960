"""The calls of a server, with gRPC's own client at the other end."""

import threading

import grpc
import pytest

from seed_rl.transport.calls import CallServer


class Echo:
    """Answers each message with itself, on another thread."""

    def __init__(self, call):
        self.call = call
        self.ends = []

    def received(self, message):
        if message is None:
            self.ends.append("silence")
            self.call.finish()
        elif message == b"fail":
            raise KeyError("x")
        elif message != b"hold":
            threading.Thread(target=self.call.send, args=(message,)).start()

    def on_vanished(self):
        self.ends.append(threading.current_thread().name)


class Server:
    """Serves echoes, and keeps them."""

    def __init__(self, path):
        self.address = f"unix:{path}"
        self.echoes = []
        self.calls = CallServer(self._on_call, [("grpc.max_receive_message_length", 1000)])

    def _on_call(self, call):
        assert call.peer.startswith("unix:")
        echo = Echo(call)
        self.echoes.append(echo)
        call.listen(echo.received, echo.on_vanished, (("welcome", dict(call.metadata)["name"]),))


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "socket")
    assert server.calls.start(server.address, None)
    yield server
    if server.calls.is_serving:
        server.calls.stop(grace=1.0)


def stream(channel, messages):
    return channel.stream_stream("/echo")(messages, metadata=(("name", "me"),), timeout=10.0)


def test_a_fault_in_one_conversation_leaves_the_others_alone(server, caplog):
    with grpc.insecure_channel(server.address) as channel:
        failed = stream(channel, iter([b"fail"]))
        assert list(stream(channel, iter([b"b"]))) == [b"b"]
        failed.cancel()
    assert "KeyError" in caplog.text


def test_what_is_posted_runs_on_the_servers_thread_in_order(server):
    names, done = [], threading.Event()
    for number in range(3):
        server.calls.post(lambda number=number: names.append((number, threading.current_thread().name)))
    server.calls.post(done.set)
    assert done.wait(5.0)
    assert names == [(number, "actor-server") for number in range(3)]


def test_stopping_cuts_the_calls_that_do_not_end(server):
    with grpc.insecure_channel(server.address) as channel:
        call = stream(channel, iter([b"a", b"hold"]))
        assert next(call) == b"a"
        server.calls.stop(grace=0.05)
        with pytest.raises(grpc.RpcError):
            next(call)
    assert server.echoes[0].ends == ["actor-server"]
    assert not server.calls.is_serving
