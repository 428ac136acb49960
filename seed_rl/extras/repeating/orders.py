"""The order in which environments are acted for and weights change: free, alternating, or as a journal recorded it."""

from __future__ import annotations

import collections
import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.errors import Failure
from seed_rl.extras.repeating.segments import Differs, Segment, different, digest
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.specs import GroupLease
from seed_rl.transport.protocol import Refusal, Refused
from seed_rl.transport.streams import Request

if TYPE_CHECKING:
    from seed_rl.learner.progress import Counters


class Order:
    """The order of a plain run: acting and learning wait for each other only where a queue is full or empty.

    Given the seeds, a run is determined by the leases of environments, the members of each inference batch, and the
    batch before which acting got each version of the weights. Subclasses record these or prescribe them.
    """

    whole_weights = False
    """Whether acting has its own copy of the weights, which changes only between batches, also on a single device."""

    def membership(self, plain: Membership) -> Membership:
        """Return what leases the environments in place of a plain run's."""
        return plain

    def batcher(self, device: int, plain: Batcher, num_envs: int, queue: UnrollQueue) -> Batcher:
        """Return what composes the batches of an inference device, which serves `num_envs` environments."""
        return plain

    def acting(self, device: int, requests: Sequence[Request]) -> contextlib.AbstractContextManager[object]:
        """Return the context in which an inference device acts for a batch."""
        return contextlib.nullcontext()

    def refreshing(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which all inference devices get new weights."""
        return contextlib.nullcontext()

    def begin(self, counters: Counters, variables: Mapping[str, Any]) -> None:
        """Note the state of the learner at its start: its counters, which go on, and all Keras variables by name."""

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        """Note the state of the learner after an update, the last step before the next batch."""

    def saving(self, updates: int, variables: Mapping[str, Any]) -> None:
        """Note that a checkpoint is about to be written."""

    def close(self) -> None:
        """Wake all threads that wait for their turn, for good."""


class OrderedBatcher(Batcher):
    """A batcher whose batches have given members, however long these take to arrive."""

    def __init__(
        self,
        max_batch_size: int,
        members: Callable[[Sequence[GroupLease]], Sequence[GroupLease] | None],
        on_close: Callable[[], None] = lambda: None,
    ):
        """Build batches of `members`: given all open groups, it returns the next batch's, None if not known yet.

        It is called again after each request and each `wake`, until the batch is complete.
        """
        super().__init__(max_batch_size, max_wait=0.0)
        self._members, self._on_close = members, on_close
        self._open: list[GroupLease] = []
        self._left: list[GroupLease] = []

    def group_opened(self, lease: GroupLease) -> None:
        with self._changed:
            super().group_opened(lease)
            self._open = sorted([*self._open, lease], key=lambda group: group.env_ids)

    def group_closed(self, lease: GroupLease) -> float:
        with self._changed:
            self._open = [group for group in self._open if group is not lease]
            self._left.append(lease)
            return super().group_closed(lease)

    def wake(self) -> None:
        """Ask again for the members of the next batch."""
        with self._changed:
            self._changed.notify()

    def get(self) -> list[Request] | None:
        """See `Batcher.get`; raise a Failure if a member of the next batch has left."""
        with self._changed:
            while not self._closed:
                members = self._members(self._open)
                if any(group is each for group in members or () for each in self._left):
                    raise Failure("an actor ended during the replay, which needs its environments; see its log")
                waiting = {id(request.lease): request for _, request in self._requests}
                if members is not None and all(id(group) in waiting for group in members):
                    chosen = [waiting[id(group)] for group in members]
                    self._requests = collections.deque(each for each in self._requests if each[1] not in chosen)
                    self._size -= sum(len(request.env_ids) for request in chosen)
                    return chosen
                self._changed.wait()
            return None

    def close(self) -> None:
        """Wake the consumer for the last time, and all others that wait for batches."""
        super().close()
        self._on_close()


class _OnDemand(OrderedBatcher):
    """Waits with each batch until the learner wants more unrolls than are there."""

    def __init__(self, queue: UnrollQueue, *arguments: Any):
        super().__init__(*arguments)
        self._queue = queue

    def get(self) -> list[Request] | None:
        requests = super().get()
        return requests if requests is not None and self._queue.wait_for_demand() else None


class Synchronous(Order):
    """Acting and learning alternate: two runs of one command are equal, as long as no process dies.

    An inference device acts once it has all its environments, for as many groups in turn as fit into a batch, and only
    while the learner waits for more unrolls than are there.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # by device: the group whose turn it is

    def batcher(self, device: int, plain: Batcher, num_envs: int, queue: UnrollQueue) -> Batcher:
        self._next[device] = 0

        def members(groups: Sequence[GroupLease]) -> Sequence[GroupLease] | None:
            if sum(len(group.env_ids) for group in groups) < num_envs:
                return None
            begin = self._next[device] % len(groups)
            sizes = np.cumsum([len(group.env_ids) for group in groups[begin:]])
            return groups[begin : begin + int(np.searchsorted(sizes, plain.max_batch_size, side="right"))]

        return _OnDemand(queue, plain.max_batch_size, members)

    @contextlib.contextmanager
    def acting(self, device: int, requests: Sequence[Request]) -> Iterator[None]:
        yield
        self._next[device] += len(requests)


class Replayed(Order):
    """The order of a segment; `Differs` is raised at the first digest that differs. Groups that act no more wait."""

    whole_weights = True

    def __init__(self, segment: Segment, until: int | None = None):
        """Prescribe a part of a journal to its end, or to `until`, a number of updates before it."""
        self._segment = segment
        self._end = segment.end if until is None or until > segment.end[0] else (until, None)
        self._changed = threading.Condition()
        self._closed = False
        self._counters: Counters | None = None  # of the learner, once it has begun
        self._turns = {device: segment.turns(device) for device in segment.batches}
        self._now = {device: next(turns, None) for device, turns in self._turns.items()}
        self._left = segment.acts.copy()  # by actor
        self._refreshes = 0
        self._batchers: dict[int, OrderedBatcher] = {}  # by inference device
        self.checked = 0  # number of digests compared

    def begin(self, counters: Counters, variables: Mapping[str, Any]) -> None:
        self._counters = counters
        updates, frames = counters.learner_updates, counters.env_frames
        expected = self._segment.begin, self._segment.start["frames"]
        if (updates, frames) != expected:
            raise Differs(f"the run continues from update and frame {expected}, its replay from {updates, frames}")
        self.learned(updates, variables)

    def membership(self, plain: Membership) -> Membership:
        return _PrescribedLeases(plain, self._segment.joins)

    def needs(self, actor: int) -> bool:
        """Return whether the replay needs the actor with this number, or soon will."""
        return self._segment.needed_after[actor] <= self._refreshes + 1

    def is_done(self, actor: int) -> bool:
        """Return whether the actor with this number has acted for the last time."""
        return not self._left[actor]

    def batcher(self, device: int, plain: Batcher, num_envs: int, queue: UnrollQueue) -> Batcher:
        def members(_: Sequence[GroupLease]) -> Sequence[GroupLease] | None:
            with self._changed:
                return [self._segment.groups[number] for number in self._now.get(device) or ()] or None

        self._batchers[device] = OrderedBatcher(plain.max_batch_size, members, self.close)
        return self._batchers[device]

    @contextlib.contextmanager
    def acting(self, device: int, requests: Sequence[Request]) -> Iterator[None]:
        yield
        with self._changed:
            self._left.subtract(self._segment.owners[number] for number in self._now[device] or ())
            self._now[device] = next(self._turns[device], None)
            self._changed.notify_all()

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not any(self._now.values()))
        yield
        with self._changed:
            self._now = {device: next(turns, None) for device, turns in self._turns.items()}
            self._refreshes += 1
        for batcher in self._batchers.values():
            batcher.wake()

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        if (recorded := self._segment.digests.get(updates)) is not None:
            if recorded != (found := digest(variable.numpy() for variable in variables.values())):
                what = different(self._segment.start["variables"], recorded, found)
                raise Differs(f"after {updates} updates, {what}")
            self.checked += 1

    def ended(self) -> bool:
        """Return whether the learner of this order ends here."""
        (updates, frames), counters = self._end, self._counters
        if counters is None or counters.learner_updates < updates:
            return False
        return frames is None or counters.env_frames >= frames

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class _PrescribedLeases(Membership):
    """Gives an actor the recorded lease whose number is its run id, once."""

    def __init__(self, plain: Membership, joins: Sequence[Sequence[GroupLease]]):
        super().__init__(plain.num_envs, plain.seed, math.inf, num_devices=plain.num_devices)
        self._joins = {str(number): join for number, join in enumerate(joins)}

    def _choose(self, group_sizes: Sequence[int], actor: str) -> Sequence[GroupLease]:
        join = self._joins.pop(actor.partition(" ")[0], ())
        if [len(group.env_ids) for group in join] != list(group_sizes):
            raise Refused(Refusal.RESOURCE_EXHAUSTED, "no further actor took part in the recorded run")
        return join
