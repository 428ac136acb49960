"""The server below the streams: its thread, and how it ends."""

import os
import subprocess
import sys
import threading

import pytest

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


@pytest.mark.parametrize("given", [None, "client_idleness"])
def test_the_choice_of_grpcs_experiments_reaches_no_other_process_and_yields_to_the_users(given):
    claim = "from seed_rl.cli import own_process; own_process.claim()"
    program = f"import os, sys; {claim}; print('grpc' in sys.modules, os.environ.get('GRPC_EXPERIMENTS'))"
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    environment |= {"GRPC_EXPERIMENTS": given} if given else {}
    printed = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    assert printed.decode().split() == [str(given is None), str(given)]
