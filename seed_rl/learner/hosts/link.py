"""The protocol between the learner hosts of a run.

Each host sends a message to host 0, which answers with those of all hosts. One round trip later all know the same: they
compare their settings, agree on each update before it is made, and notice at once when a host is gone. Gradients and
weights travel around a ring of all hosts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple, NoReturn

import numpy as np

from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import ALONE, HostLost, Hosts
from seed_rl.learner.hosts.peer import Peer
from seed_rl.learner.hosts.ring import Ring

_log = logging.getLogger(__name__)

_LONG_SECONDS = 10.0  # a longer wait for another host is logged


class Agreed(NamedTuple):
    """The next step of all hosts."""

    leave: bool
    """End the run, because at least one host is about to end."""
    update: bool
    """Make an update: all hosts have a batch, and none is about to end."""
    env_frames: int
    """The progress of host 0: schedules must be the same on all hosts."""


class Link:
    """The connections of a learner host to the others of its run. Used by the learner's thread.

    As a context it closes the connections, and sends the other hosts the error that ends it.
    """

    leave_seconds = 5.0
    """How long a host that ends waits for the others to receive its decision."""

    def __init__(self, hosts: Hosts, peers: Mapping[int, Peer]):
        """Takes over connections by the index of the other host: of host 0 to all others, of the others to host 0."""
        self.hosts = hosts
        self._peers = dict(peers)
        self._ring: Ring | None = None
        self._summing_since: float | None = None
        self._closing = False
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close((str(error) or type(error).__name__) if isinstance(error, Exception) else "")

    def gather(self, own: Mapping[str, Any]) -> list[Any]:
        """The messages of all hosts, by index; called by every host at the same point, and so a barrier.

        Args:
          own: JSON values by name. With a true `leave` the hosts wait for each other for a few seconds only, and None
            stands for one that sent nothing.

        Raises:
          HostLost: another host has ended.
        """
        if not self._peers:
            return [own]
        if self.hosts.index:
            self._send(0, own)
            answer = self._receive([0], time.monotonic() + 2 * self.leave_seconds if own.get("leave") else None)
            return [own] if answer is None else answer[1]
        messages, deadline = {0: own}, None
        while missing := self._peers.keys() - messages.keys():
            if deadline is None and any(message.get("leave") for message in messages.values()):
                deadline = time.monotonic() + self.leave_seconds
            received = self._receive(missing, deadline)
            if received is None:
                break
            messages[received[0]] = received[1]
        gathered = [messages.get(index) for index in range(self.hosts.count)]
        for index in self._peers:
            self._send(index, gathered)
        return gathered

    def compare(self, own: Mapping[str, Any]) -> None:
        """Checks that all hosts have the same settings, JSON values by name; called by every host at the same point.

        Raises:
          ConfigError: the settings differ.
          HostLost: another host has ended.
        """
        first, *others = json.loads(json.dumps(self.gather(own)))
        for index, other in enumerate(others, 1):
            names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
            # Names that only one host has are explained by a shared one that differs, such as `agent.kind`.
            names = [name for name in names if name in first and name in other] or names
            if names:
                differ = (f"{n} is {first.get(n)!r} on host 0 and {other.get(n)!r} on host {index}" for n in names)
                raise ConfigError(f"learner hosts must be started with the same settings: {'; '.join(differ)}")

    def agree(self, *, leave: bool, ready: bool, env_frames: int) -> Agreed:
        """Decides on the next step; called by every host at the same point of its loop, several times a second.

        Args:
          leave: whether this host is about to end.
          ready: whether it has a batch.
          env_frames: its progress.

        Raises:
          HostLost: another host has ended.
        """
        try:
            gathered = self.gather({"leave": leave, "ready": ready, "env_frames": env_frames})
        except HostLost:
            if not leave:
                raise
            return Agreed(True, False, env_frames)
        messages = [message for message in gathered if message is not None]
        leave = any(message["leave"] for message in messages)
        return Agreed(leave, not leave and all(m["ready"] for m in messages), messages[0]["env_frames"])

    def use(self, ring: Ring) -> None:
        """Takes over the ring of the hosts, and breaks it as soon as a connection of this link ends."""
        self._ring = ring

        def poll() -> None:
            while not self._hung_up(_LONG_SECONDS):
                since = self._summing_since
                if since is not None and time.monotonic() - since > _LONG_SECONDS:
                    _log.info("waiting for another learner host, which is slow in an update")
            if not self._closing:
                ring.abort()

        self._watcher = threading.Thread(target=poll, name="other hosts", daemon=True)
        self._watcher.start()

    def sum(self, array: np.ndarray) -> np.ndarray:
        """The sum of all hosts' arrays [N], with the same bits everywhere; called by every host at the same point.

        Raises:
          HostLost: another host has ended.
        """
        if self._ring is None:
            return array
        self._summing_since = time.monotonic()
        try:
            return self._ring.sum(array)
        except OSError:
            self.report_loss(self.leave_seconds)
        finally:
            self._summing_since = None

    @property
    def is_broken(self) -> bool:
        """Whether the connection to another host has ended."""
        return self._hung_up(0.0)

    def _hung_up(self, seconds: float) -> bool:
        poller = select.poll()
        for peer in self._peers.values():
            poller.register(peer, select.POLLRDHUP)
        return bool(poller.poll(1000 * seconds))

    def report_loss(self, seconds: float) -> NoReturn:
        """Finds out which host is gone: host 0 knows, and the others learn it from its last message.

        Raises:
          HostLost: always.
        """
        silent, deadline = set(self._peers), time.monotonic() + seconds
        while silent and (received := self._receive(silent, deadline)) is not None:
            silent.discard(received[0])
        raise HostLost(f"another learner host is gone: {self._remedy}")

    def of_first(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays of host 0; every host gives its own, of the same shapes and dtypes, at the same point.

        Raises:
          HostLost: another host has ended.
        """
        joined = np.frombuffer(b"".join(array.tobytes() for array in arrays), np.uint8)
        ends = np.cumsum([array.nbytes for array in arrays])
        pieces = np.split(self.sum(np.zeros_like(joined) if self.hosts.index else joined), ends[:-1])
        return [
            np.frombuffer(piece.tobytes(), array.dtype).reshape(array.shape)
            for piece, array in zip(pieces, arrays, strict=True)
        ]

    def close(self, reason: str = "") -> None:
        """Ends the connections; the other hosts are sent the `reason`, if this host ends because of an error."""
        self._closing = True
        for peer in self._peers.values():
            with contextlib.suppress(OSError):
                if reason:
                    peer.write({"ended": reason})
            with contextlib.suppress(OSError):
                peer.shutdown()  # wakes the watcher
        if self._watcher is not None:
            self._watcher.join()
        if self._ring is not None:
            self._ring.close()
        for peer in self._peers.values():
            peer.close()
        self._peers, self._ring = {}, None

    def _send(self, index: int, message: Any) -> None:
        try:
            self._peers[index].write(message)
        except OSError:
            self._receive([index], time.monotonic())  # its last message may be the reason
            raise self._lost(index) from None

    def _receive(self, indices: Collection[int], deadline: float | None) -> tuple[int, Any] | None:
        """The index of one of these hosts and a message from it; None if the deadline passes without one."""
        peers: dict[Any, int] = {self._peers[index]: index for index in indices}
        ready = wait(peers, _LONG_SECONDS if deadline is None else max(0.0, deadline - time.monotonic()))
        if not ready and deadline is None:
            _log.info("waiting for learner host %s", ", ".join(map(str, sorted(indices))))
            ready = wait(peers)
        if not ready:
            return None
        index = peers[ready[0]]
        try:
            message = self._peers[index].read()
        except OSError:
            raise self._lost(index) from None
        if isinstance(message, dict) and "ended" in message:
            raise HostLost(f"learner host {index} has ended: {message['ended']}")
        return index, message

    def _lost(self, index: int) -> HostLost:
        return HostLost(f"learner host {index} ({self.hosts.addresses[index]}) is gone: {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"start all {self.hosts.count} again, and they continue from the last checkpoint"


NO_OTHERS = Link(ALONE, {})
"""The link of a single learner process."""
