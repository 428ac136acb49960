"""What the learner hosts of a run say to each other, besides what TensorFlow adds up for them.

Each sends a message to the first, which answers with those of all: so all know the same, about as soon as a round trip
takes. They compare what they are to train, agree before each update whether to make it, and notice at once who is gone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import ALONE, HostLost, Hosts
from seed_rl.learner.hosts.peer import Gone, Peer, receive_any

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_TELL_SECONDS = 10.0  # a longer wait is logged
_LEAVE_SECONDS = 5.0  # a host that is to end waits so long for the others to hear of it


class Agreed(NamedTuple):
    """What all hosts do next."""

    leave: bool
    """End the run: at least one of them is to end."""
    update: bool
    """Make an update: all have a batch, and none is to end."""
    env_frames: int
    """How far the first host is: what depends on a run's progress must be the same on all."""


class Link:
    """The connections of a learner host to the others of its run. Used by the learner's thread."""

    def __init__(self, hosts: Hosts, peers: Mapping[Peer, int]):
        """
        Args:
          hosts: which this is, of how many.
          peers: connections, with the index of who is at the other end; from the first host to all others, from these
            to the first.
        """
        self.hosts = hosts
        self._peers = dict(peers)
        self._closing = False
        self._watcher: threading.Thread | None = None

    def compare(self, own: Mapping[str, Any]) -> None:
        """Every host asks at the same point, with what must be the same on all of them: JSON values by name.

        Raises:
          ConfigError: it is not.
          HostLost: another host has ended.
        """
        first, *others = self._gather(json.loads(json.dumps(own)))
        for index, other in enumerate(others, 1):
            found = _differences(first, other, index)
            if found:
                raise ConfigError(f"learner hosts must be started with the same settings: {'; '.join(found)}")

    def agree(self, *, leave: bool, ready: bool, env_frames: int) -> Agreed:
        """Every host asks at the same point of its loop, several times a second.

        Args:
          leave: whether this one is to end.
          ready: whether it has a batch.
          env_frames: how far it is.

        Raises:
          HostLost: another host has ended.
        """
        try:
            found = self._gather({"leave": leave, "ready": ready, "env_frames": env_frames})
        except HostLost:
            if not leave:
                raise
            return Agreed(True, False, env_frames)  # none is needed for that
        heard = [message for message in found if message is not None]
        leave = any(message["leave"] for message in heard)
        return Agreed(leave, not leave and all(message["ready"] for message in heard), heard[0]["env_frames"])

    def wait(self) -> None:
        """Returns when all hosts have come to this point.

        Raises:
          HostLost: another host has ended.
        """
        self._gather({})

    def watch(self, on_loss: Callable[[], None]) -> None:
        """Calls `on_loss` in a thread of its own as soon as another host ends, whatever this one is in."""
        if not self._peers:
            return
        poller = select.poll()
        for peer in self._peers:
            poller.register(peer.fileno(), select.POLLRDHUP)

        def wait() -> None:
            poller.poll()
            if not self._closing:
                on_loss()

        self._watcher = threading.Thread(target=wait, name="other hosts", daemon=True)
        self._watcher.start()

    def close(self, reason: str = "") -> None:
        """Ends the connections.

        Args:
          reason: told to the others, if this host ends for one that they don't know.
        """
        self._closing = True
        for peer in self._peers:
            with contextlib.suppress(Gone):
                if reason:
                    peer.send({"ended": reason})
            peer.hang_up()
        if self._watcher is not None:
            self._watcher.join()
        for peer in self._peers:
            peer.close()
        self._peers = {}

    def _gather(self, own: dict[str, Any]) -> list[Any]:
        """The messages of all hosts, in their order; None of those that have not heard in time that one leaves."""
        if not self._peers:
            return [own]
        limit = time.monotonic() + _LEAVE_SECONDS if own.get("leave") else math.inf
        if self.hosts.index:
            (first,) = self._peers
            self._send(first, own)
            found = self._receive([first], limit + _LEAVE_SECONDS)  # the first may have to wait itself
            return [own] if found is None else found[1]
        messages = {0: own}
        while len(messages) < self.hosts.count:
            found = self._receive([peer for peer, index in self._peers.items() if index not in messages], limit)
            if found is None:
                break
            peer, message = found
            messages[self._peers[peer]] = message
            if message.get("leave"):
                limit = min(limit, time.monotonic() + _LEAVE_SECONDS)
        everything = [messages.get(index) for index in range(self.hosts.count)]
        for peer in self._peers:
            self._send(peer, everything)
        return everything

    def _send(self, peer: Peer, message: Any) -> None:
        try:
            peer.send(message)
        except Gone:
            self._receive([peer], time.monotonic())  # what it said last may tell why
            raise self._lost(peer) from None

    def _receive(self, peers: Sequence[Peer], limit: float) -> tuple[Peer, Any] | None:
        """The next message of one of them and whose it is; None if there is none before the time `limit`."""
        tell_at = time.monotonic() + _TELL_SECONDS
        while True:
            try:
                found = receive_any(peers, _POLL_SECONDS)
            except Gone as gone:
                raise self._lost(gone.peer) from None
            if found is not None:
                peer, message = found
                if isinstance(message, dict) and "ended" in message:
                    raise HostLost(f"learner host {self._peers[peer]} has ended: {message['ended']}")
                return found
            now = time.monotonic()
            if now >= limit:
                return None
            if now >= tell_at:
                tell_at = math.inf
                _log.info("waiting for learner host %s", ", ".join(str(self._peers[peer]) for peer in peers))

    def _lost(self, peer: Peer) -> HostLost:
        index = self._peers[peer]
        return HostLost(
            f"learner host {index} ({self.hosts.addresses[index]}) is gone: start all {self.hosts.count} again, and "
            "they continue from the last checkpoint"
        )


NO_OTHERS = Link(ALONE, {})
"""Of a single learner process."""


def _differences(first: Mapping[str, Any], other: Mapping[str, Any], index: int) -> list[str]:
    """Phrases; what only one of them has is left out where a name that both have tells of it, such as the agent's."""
    shared = [name for name in first if name in other and first[name] != other[name]]
    names = shared or [name for name in {**first, **other} if (name in first) != (name in other)]
    return [f"{name} is {_shown(first, name)} on host 0 and {_shown(other, name)} on host {index}" for name in names]


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not there"
