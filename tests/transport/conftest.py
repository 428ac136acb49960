"""A fake learner's server and clients of it, closed after each test."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import grpc
import pytest

from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.protocol import ACT
from seed_rl.transport.server import ActorServer
from tests.support.connect_proxy import ConnectProxy
from tests.support.deadlines import within
from tests.transport import peers


class House:
    """Makes servers, clients, threads and processes, which end with `ends`, the youngest first."""

    def __init__(self, directory, ends):
        self.path = f"unix:{directory}/learner.sock"
        self.threads = ends.enter_context(ThreadPoolExecutor(64))
        self._ends = ends

    def serve(self, address=None, security=None, **limits):
        """Starts a server with a new fake service."""
        service = peers.FakeService()
        server = ActorServer(address or self.path, peers.SETTINGS, security=security or ServerSecurity(), **limits)
        server.service = service
        self._ends.callback(service.end)
        self._ends.callback(server.stop, grace=1.0)
        return SimpleNamespace(address=server.start(), server=server, service=service)

    def connect(self, address=None, security=None, **options):
        """A client, by default of the server at `path`."""
        client = LearnerClient(address or self.path, security or ClientSecurity(), **options)
        self._ends.callback(client.close)
        return client

    def streams(self, client, sizes):
        """Joins; returns the lease and an open stream for each group."""
        lease = client.join("run", peers.SPEC, sizes, timeout=within(5))
        return lease, [client.open(lease, group, peers.SPEC) for group in range(len(sizes))]

    def act(self, opening, *messages):
        """A stream to the server at `path` without the client's own checks, with these messages."""
        channel = self._ends.enter_context(grpc.insecure_channel(self.path))
        return channel.stream_stream(ACT)(iter(messages), metadata=opening.metadata(), timeout=within(5))

    def hold(self, learner, stream, size):
        """Makes a step that the learner doesn't answer; returns the stream on its side, and the actor's result."""
        learner.service.hold = True
        result = self.threads.submit(stream.step, peers.output(size))
        return learner.service.held.get(timeout=within(5)), result

    def start(self, role, *arguments):
        """Starts a process as `peers.start` does."""
        process, line = peers.start(role, *arguments)
        self._ends.callback(process.communicate)
        self._ends.callback(process.kill)
        return process, line


@pytest.fixture
def house(tmp_path):
    with contextlib.ExitStack() as ends:
        yield House(tmp_path, ends)


@pytest.fixture
def proxy(monkeypatch):
    """A proxy to no place yet, which the environment names."""
    for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.closing(ConnectProxy({})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        yield proxy
