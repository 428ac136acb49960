"""The server below the streams: its thread, and how it ends."""

import threading

from seed_rl.transport import calls
from seed_rl.transport.calls import CallServer
from tests.support.deadlines import within


def test_a_stuck_thread_does_not_keep_the_learner_from_ending(house, monkeypatch, caplog):
    monkeypatch.setattr(calls, "STUCK_SECONDS", 0.1)
    stuck, release = threading.Event(), threading.Event()

    def hang(call):
        stuck.set()
        release.wait()

    server = CallServer(hang, ())
    assert server.start(house.path, None)
    house.threads.submit(house.connect().describe, 1.0)
    assert stuck.wait(within(10))
    server.stop(grace=0.1)
    assert "the server's thread is stuck" in caplog.text
    release.set()
