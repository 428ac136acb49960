"""A learner that doesn't learn, in a separate process, so that a test can measure its memory and open files."""

from __future__ import annotations

import logging
import socket
import sys

from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.protocol import Refusal, Refused
from seed_rl.transport.server import ActorServer
from tests.transport import peers

TOKEN = "swordfish"


class Forgetful(peers.FakeService):
    """Keeps nothing of the steps that it answers, and has room for one kind of environment."""

    def join(self, run_id, env_spec, group_sizes, peer):
        if env_spec != peers.SPEC:
            raise Refused(Refusal.FAILED_PRECONDITION, f"expected {peers.SPEC}, got {env_spec}")
        return super().join(run_id, env_spec, group_sizes, peer)

    def step(self, lease, env_ids, first, output, stream):
        super().step(lease, env_ids, first, output, stream)
        self.steps.clear()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    pair = socket.socketpair()  # a learner may have any kind of socket open
    server = ActorServer("127.0.0.1:0", Forgetful(), security=ServerSecurity(token=TOKEN), max_message_bytes=1 << 20)
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop(grace=1.0)
