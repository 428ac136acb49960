"""Actors in threads of the learner's process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from seed_rl.actor.loop import Actor
from seed_rl.launch.local_actors import ActorFailed
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)


class ActorThreads:
    """Runs `count` actors until stopped; the first that fails ends them all."""

    def __init__(self, count: int, on_failure: Callable[[], None]):
        """
        Args:
          count: actors.
          on_failure: called once `failed` is set.
        """
        self.failed: ActorFailed | None = None
        self._on_failure = on_failure
        self._count = count
        self._actors: list[Actor] = []
        self._threads: list[threading.Thread] = []

    def start(self, address: str) -> None:
        """Connects them to a learner, which is on this machine and in this process."""
        self._actors = [Actor(lambda: LearnerClient(address, ClientSecurity())) for _ in range(self._count)]
        self._threads = [
            threading.Thread(target=self._run, args=(number, actor), name=f"actor-{number}", daemon=True)
            for number, actor in enumerate(self._actors)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends them."""
        for actor in self._actors:
            actor.stop()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int, actor: Actor) -> None:
        try:
            actor.run()
        except Exception as error:
            _log.debug("actor %d ended", number, exc_info=True)
            failed = ActorFailed(f"actor {number} failed: {error}")
            failed.__cause__ = error
            self.failed = self.failed or failed
            self._on_failure()
