"""A network that is only imitated: a proxy in a process of its own, between actors and a learner on one machine.

Whatever comes in at one end leaves at the other after a delay, in order, however much is under way: delay doesn't limit
bandwidth, as on a real line. The bandwidth is limited apart, each way for all connections together; what doesn't get
through within `QUEUE_SECONDS` is not read any more, and the sender has to wait, as before a router whose queue is full.

What is not imitated: packets are never lost, connecting takes no round trip, and TCP's window, which grows with the
round trips of a connection, is that of the local connections to the proxy. HTTP/2's windows are real: they are kept
by the two ends.
"""

from __future__ import annotations

import asyncio
import collections
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from benchmarks.children import Child
from seed_rl.transport.address import Address, parse_address

QUEUE_SECONDS = 0.05
"""How far ahead a limited line may be booked."""
_EARLY = 0.00005  # a timer that fires so much too early is not set again
_START_SECONDS = 30.0
_ASK_SECONDS = 30.0


class Line(NamedTuple):
    """What the network is like."""

    delay_seconds: float = 0.0
    """Each way: half of a round trip."""
    bytes_per_second: float = 0.0
    """Each way, of all connections together; 0: no limit."""


DIRECT = Line()


class Passed(NamedTuple):
    """What has gone through so far."""

    up: int
    """Bytes from the clients to the server."""
    down: int
    """Bytes back."""
    connections: int
    """Open at the moment."""


class SlowNetwork:
    """A proxy for one server. Use it as a context manager.

    It listens on the loopback interface: actors believe that the learner is on their machine, and must be told not to
    hand it their steps in memory.
    """

    def __init__(self, server: str, line: Line = DIRECT):
        """
        Args:
          server: `host:port` or `unix:/path`; connected to with each connection that comes.
          line: at first.
        """
        self._child = Child("the proxy", proxy, server, line)
        self._child.wait_until_ready(_START_SECONDS)
        self.address: str = self._child.ask(("address",), _ASK_SECONDS)
        """`127.0.0.1:port`, where clients connect."""

    def change(self, line: Line) -> None:
        """Changes the network, for all that comes in from now on."""
        self._child.ask(("change", line), _ASK_SECONDS)

    def cut(self) -> int:
        """Ends all connections at once, losing what is under way; returns how many there were. New ones may come."""
        return self._child.ask(("cut",), _ASK_SECONDS)

    def passed(self) -> Passed:
        """What has gone through."""
        return self._child.ask(("passed",), _ASK_SECONDS)

    def close(self) -> None:
        """Ends it. May be called twice."""
        self._child.close()

    def __enter__(self) -> SlowNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def proxy(server: str, line: Line) -> Iterator[Callable[[tuple[Any, ...]], Any]]:
    """Runs the proxy on a thread of this process; for `children.Child`."""
    # `select` keeps time to some 0.1 ms, where the usual `epoll` rounds up to whole milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    network = _Proxy(loop, parse_address(server), line)
    thread = threading.Thread(target=_run_forever, args=(loop,), name="proxy", daemon=True)
    thread.start()

    def on_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    address = on_loop(network.listen())

    async def answer(request: tuple[Any, ...]) -> Any:
        return address if request == ("address",) else getattr(network, request[0])(*request[1:])

    try:
        yield lambda request: on_loop(answer(request))
    finally:
        on_loop(network.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


class _Direction:
    """One way of the line, shared by all connections."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._free_at = 0.0

    def leaves_at(self, nbytes: int, now: float, line: Line) -> tuple[float, float]:
        """When so many bytes arrive at the other end, and when the line takes more, in the loop's seconds."""
        self.nbytes += nbytes
        taken = nbytes / line.bytes_per_second if line.bytes_per_second else 0.0
        self._free_at = max(now, self._free_at) + taken
        return self._free_at + line.delay_seconds, self._free_at - QUEUE_SECONDS


class _Proxy:
    """All of it; used on its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Address, line: Line):
        self.loop = loop
        self.line = line
        self.ends: set[_End] = set()
        self._server = server
        self._up, self._down = _Direction(), _Direction()
        self._connecting: set[asyncio.Task[None]] = set()

    async def listen(self) -> str:
        self._listener = await self.loop.create_server(lambda: _ClientEnd(self, self._up), "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        return f"{host}:{port}"

    def came(self, client: _End) -> None:
        """Called with each client that has connected."""
        task = self.loop.create_task(self._connect(client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: _End) -> None:
        """Connects a client to the server; a server that isn't there ends the client's connection."""
        server = _End(self, self._down)
        try:
            if self._server.path:
                await self.loop.create_unix_connection(lambda: server, self._server.path)
            else:
                await self.loop.create_connection(lambda: server, self._server.host, self._server.port)
        except OSError:
            client.abort()
            return
        client.join(server)

    def change(self, line: Line) -> None:
        self.line = line

    def cut(self) -> int:
        count = len(self.ends)
        for end in list(self.ends):
            end.abort()
        return count // 2

    def passed(self) -> Passed:
        return Passed(self._up.nbytes, self._down.nbytes, len(self.ends) // 2)

    async def close(self) -> None:
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._connecting, return_exceptions=True)


class _End(asyncio.Protocol):
    """One end of a connection: what comes in here is written to the other end, later."""

    def __init__(self, network: _Proxy, direction: _Direction):
        self._network = network
        self._direction = direction
        self._transport: asyncio.Transport | None = None
        self._other: _End | None = None
        self._under_way: collections.deque[tuple[float, bytes | None]] = collections.deque()  # None: the end
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._full = 0  # reasons for not reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._network.ends.add(self)
        self._hold()  # until there is somewhere to write to

    def join(self, other: _End) -> None:
        """Puts two ends together."""
        self._other, other._other = other, self
        self._release()
        other._release()

    def data_received(self, data: bytes) -> None:
        now = self._network.loop.time()
        due, more_at = self._direction.leaves_at(len(data), now, self._network.line)
        self._send(due, data)
        if more_at > now:
            self._hold()
            self._network.loop.call_at(more_at, self._release)

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.ends.discard(self)
        self._send(self._network.loop.time() + self._network.line.delay_seconds, None)

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other._hold()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other._release()

    def abort(self) -> None:
        """Ends this end at once; what is under way from here is lost."""
        self._under_way.clear()
        if self._transport is not None:
            # With a reset, as if the peer had gone; without this its system would be told of an orderly end.
            line = self._transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _send(self, due: float, data: bytes | None) -> None:
        self._last_due = max(self._last_due, due)  # in order, though the delay may have become shorter
        self._under_way.append((self._last_due, data))
        if self._timer is None:
            self._timer = self._network.loop.call_at(self._last_due, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        while self._under_way and self._under_way[0][0] <= self._network.loop.time() + _EARLY:
            _, data = self._under_way.popleft()
            other = None if self._other is None else self._other._transport
            if other is None or other.is_closing():
                continue
            if data is None:
                other.close()
            else:
                other.write(data)
        if self._under_way:
            self._timer = self._network.loop.call_at(self._under_way[0][0], self._deliver)

    def _hold(self) -> None:
        self._full += 1
        if self._full == 1 and self._transport is not None:
            self._transport.pause_reading()

    def _release(self) -> None:
        self._full -= 1
        if self._full == 0 and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


class _ClientEnd(_End):
    """The one that begins."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._network.came(self)
