"""A learner without learning, in a process of its own whose memory and files an attack can be measured by."""

from __future__ import annotations

import logging
import sys

from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer
from tests.transport.peers import FakeService

TOKEN = "swordfish"


class Forgetful(FakeService):
    """Keeps nothing of the steps that it answers."""

    def step(self, lease, first, output, stream):
        super().step(lease, first, output, stream)
        self.steps.clear()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    server = ActorServer("127.0.0.1:0", Forgetful(), security=ServerSecurity(token=TOKEN), max_message_bytes=1 << 20)
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop(grace=1.0)
