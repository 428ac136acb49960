"""A learner and an actor with a network between them that delays, and breaks."""

import asyncio
import re
import threading

DELAY_SECONDS = 0.0025


class SlowNetwork:
    """A TCP proxy in front of a server: delays each way, counts bytes to the server, and can cut every connection."""

    def __init__(self, server):
        self.address = ""
        self.bytes_up = 0
        self._host, _, self._port = server.rpartition(":")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._writers = set()

    def __enter__(self):
        self._thread.start()
        self._server = self._wait(asyncio.start_server(self._connected, "127.0.0.1", 0))
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    def __exit__(self, *_):
        self._wait(self._abort())
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self):
        """Aborts all connections, losing the bytes under way; returns how many there were."""
        return self._wait(self._abort())

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _abort(self):
        count = len(self._writers)
        for writer in self._writers:
            writer.transport.abort()
        return count // 2

    async def _connected(self, reader, writer):
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, server_writer}
        try:
            await asyncio.gather(
                self._pump(reader, server_writer, up=True), self._pump(server_reader, writer, up=False)
            )
        except OSError:
            pass  # cut
        finally:
            self._writers -= {writer, server_writer}
            for end in (writer, server_writer):
                end.close()

    async def _pump(self, reader, writer, up):
        under_way = asyncio.Queue()

        async def deliver():
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(due - self._loop.time())
                if not data:
                    writer.close()
                    return
                writer.write(data)

        delivery = asyncio.ensure_future(deliver())
        data = b"begin"
        while data:
            try:
                data = await reader.read(1 << 16)
            except OSError:  # cut
                data = b""
            self.bytes_up += len(data) if up else 0
            under_way.put_nowait((self._loop.time() + DELAY_SECONDS, data))
        await delivery


def test_catch_is_learned_through_a_network_that_delays_and_breaks(runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "catch")
    learner = runs.start(
        "learner",
        "--gin_file=catch/vtrace",
        "--gin_param=Catch.rows=6",
        "--gin_param=Catch.columns=3",
        "--gin_param=Actors.groups_per_actor=4",
        "--gin_param=Logs.metrics_interval_s=0.5",
        "--total_frames=120000",
        f"--logdir={logdir}",
        "--server_address=localhost:0",
    )
    address = wait_for(lambda: re.search(r"serving actors at (\S+) after", learner.text()), learner)[1]
    with SlowNetwork(address) as network:
        actor = runs.start("actor", f"--server_address={network.address}", "--noshare_memory")
        wait_for(lambda: any(row["env_frames"] > 30_000 for row in rows(logdir)), learner)
        assert network.cut() == 1, "an actor has one connection"
        assert learner.wait(120) == 0, learner.text()
        observation_bytes = 18
        assert network.bytes_up > 120_000 * observation_bytes, "steps travel over the wire"
    assert rows(logdir)[-1]["episode_return"] > 0.6, "at random it is about -0.3"
    assert rows(logdir)[-1]["discarded_unrolls"] > 0
    assert actor.text().count("joined with 64 environments") >= 2, actor.text()
    assert "Traceback" not in actor.text() + learner.text()
