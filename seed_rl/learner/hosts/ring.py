"""Sums of arrays over the learner hosts of a run.

The hosts form a ring: each sends to the next one and receives from the previous one. An array travels in as many parts
as there are hosts. In the first half of the rounds each part collects the terms of all hosts, in the second half the
sums go round. So a host sends less than twice the array, however many hosts there are, and all get the same bits.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from seed_rl.learner.hosts import Hosts
from seed_rl.learner.hosts.peer import Peer


class Ring:
    """The connections of a host to its two neighbours."""

    def __init__(self, hosts: Hosts, previous: Peer, following: Peer):
        """Takes over the connections; a peer that is silent is waited for until `abort`."""
        self._hosts = hosts
        self._previous = previous
        self._following = following
        self._sender = ThreadPoolExecutor(1, "ring")

    def sum(self, array: np.ndarray) -> np.ndarray:
        """The sum of all hosts' arrays [N], of any number dtype; called by every host at the same point.

        Raises:
          OSError: a neighbour is gone, or `abort` was called.
        """
        count, index = self._hosts.count, self._hosts.index
        parts = np.array_split(array, count)
        for done in range(2 * (count - 1)):
            outgoing, incoming = (index - done) % count, (index - done - 1) % count
            # In a thread: a large write ends only when the other side reads, and every host writes at this moment.
            sending = self._sender.submit(self._following.write_array, parts[outgoing])
            received = self._previous.read_array(np.empty_like(parts[incoming]))
            sending.result()
            parts[incoming] = parts[incoming] + received if done < count - 1 else received
        return np.concatenate(parts)

    def abort(self) -> None:
        """Lets a sum that waits, and all later ones, fail. From any thread."""
        for peer in (self._previous, self._following):
            with contextlib.suppress(OSError):
                peer.shutdown()

    def close(self) -> None:
        """Ends the connections."""
        self.abort()
        self._sender.shutdown()
        self._previous.close()
        self._following.close()
