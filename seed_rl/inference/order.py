"""The order in which environments are acted for and weights change: free, or one that another run repeats."""

import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.specs import GroupLease, Lease
from seed_rl.transport.streams import Request


class OrderFailed(Exception):
    """The prescribed order can't be kept; the message says why."""


class Order:
    """The default: acting and learning wait for each other only where a queue is full or empty.

    Given the seeds, a run is determined by the leases of environments, the members of each inference batch, and the
    batch before which acting got each version of the weights. Subclasses record these or prescribe them.
    """

    whole_weights = False
    """Whether acting has its own copy of the weights, which changes only between batches, also on a single device."""
    goes_on = False
    """Whether the run continues with another learner once this order has `ended`."""

    def membership(self, num_envs: int, seed: int, timeout: float, num_devices: int) -> Membership:
        """Build what leases the environments; see `Membership`."""
        return Membership(num_envs, seed, timeout, num_devices=num_devices)

    def joined(self, lease: Lease) -> None:
        """Note a new lease."""

    def batcher(self, device: int, max_batch_size: int, max_wait: float, num_envs: int) -> Batcher:
        """Build what composes the batches of an inference device, which serves `num_envs` environments."""
        return Batcher(max_batch_size, max_wait)

    def acting(
        self, device: int, groups: Sequence[GroupLease], queue: UnrollQueue
    ) -> contextlib.AbstractContextManager[object]:
        """Return the context in which an inference device acts for a batch of groups; `queue` gets its unrolls."""
        return contextlib.nullcontext()

    def refreshing(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which all inference devices get new weights."""
        return contextlib.nullcontext()

    def began(self, updates: int, frames: int, variables: Mapping[str, Any]) -> None:
        """Note the state of the learner at its start: updates and frames so far, and all Keras variables by name."""

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        """Note the state of the learner after an update, the last step before the next batch."""

    def saving(self, updates: int, variables: Mapping[str, Any]) -> None:
        """Note that a checkpoint is about to be written."""

    def ended(self, updates: int, frames: int) -> bool:
        """Return whether the learner of this order ends here."""
        return False

    def close(self) -> None:
        """Wake all threads that wait for their turn, for good."""


FREE = Order()
"""The order of a run that nothing else prescribes."""


class OrderedBatcher(Batcher):
    """A batcher whose batches have given members, however long these take to arrive."""

    def __init__(self, max_batch_size: int, members: Callable[[Sequence[GroupLease]], Sequence[GroupLease] | None]):
        """
        Args:
          max_batch_size: environments per batch.
          members: returns the groups of the next batch, given all open ones; None if it isn't known yet. Called again
            after each request and each `wake`, until the batch is complete.
        """
        super().__init__(max_batch_size, max_wait=0.0)
        self._members = members
        self._open: list[GroupLease] = []
        self._left: list[GroupLease] = []

    def group_opened(self, lease: GroupLease) -> None:
        with self._changed:
            super().group_opened(lease)
            self._open = sorted([*self._open, lease], key=lambda group: group.env_ids)

    def group_closed(self, lease: GroupLease) -> None:
        with self._changed:
            super().group_closed(lease)
            self._open = [group for group in self._open if group is not lease]
            self._left.append(lease)

    def wake(self) -> None:
        """Ask again for the members of the next batch."""
        with self._changed:
            self._changed.notify()

    def get(self) -> list[Request] | None:
        """See `Batcher.get`.

        Raises:
          OrderFailed: a member of the next batch has left.
        """
        with self._changed:
            while not self._closed:
                members = self._members(self._open)
                if any(group is each for group in members or () for each in self._left):
                    raise OrderFailed(
                        "an actor ended during the replay, which needs its environments; its log says why"
                    )
                waiting = {id(request.lease): request for _, request in self._requests}
                if members is not None and all(id(group) in waiting for group in members):
                    chosen = [waiting[id(group)] for group in members]
                    kept = [entry for entry in self._requests if entry[1] not in chosen]
                    self._requests = collections.deque(kept)
                    self._size -= (size := sum(len(request.env_ids) for request in chosen))
                    if size > self.max_batch_size:
                        raise OrderFailed(f"the next batch has {size} environments, at most are {self.max_batch_size}")
                    return chosen
                self._changed.wait()
            return None


class Synchronous(Order):
    """Acting and learning alternate: two runs of one command are equal, as long as no process dies.

    An inference device acts once it has all its environments, for as many groups in turn as fit into a batch, and only
    while the learner waits for more unrolls than are there.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # by device: the group whose turn it is

    def batcher(self, device: int, max_batch_size: int, max_wait: float, num_envs: int) -> Batcher:
        self._next[device] = 0

        def members(groups: Sequence[GroupLease]) -> Sequence[GroupLease] | None:
            if sum(len(group.env_ids) for group in groups) < num_envs:
                return None
            begin = self._next[device] % len(groups)
            sizes = np.cumsum([len(group.env_ids) for group in groups[begin:]])
            return groups[begin : begin + int(np.searchsorted(sizes, max_batch_size, side="right"))]

        return OrderedBatcher(max_batch_size, members)

    @contextlib.contextmanager
    def acting(self, device: int, groups: Sequence[GroupLease], queue: UnrollQueue) -> Iterator[None]:
        queue.wait_for_demand()
        yield
        self._next[device] += len(groups)
