"""Prescribes the order of acting and learning that a journal recorded."""

import contextlib
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.extras.repeating.recorded import digest_of
from seed_rl.extras.repeating.segments import Differs, Segment, different
from seed_rl.extras.repeating.synchronous import OrderedBatcher, OrderFailed
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.inference.order import Order
from seed_rl.specs import GroupLease
from seed_rl.transport.protocol import Refusal, Refused

_PATIENCE = 25  # times that the learner waits for a batch, 0.2 s each, while nothing else is left to do


class Replayed(Order):
    """The order of a segment. Groups that act no more in it wait until it ends."""

    whole_weights = True

    def __init__(self, segment: Segment, until: int | None = None, check: bool = False):
        """
        Args:
          segment: part of a journal.
          until: number of updates at which to end; None: at the segment's end.
          check: whether to compare all digests, and raise `Differs` on the learner's thread at the first that differs.
        """
        self._segment, self._check = segment, check
        self._end = segment.end if until is None or until > segment.end[0] else (until, None)
        self._changed = threading.Condition()
        self._closed = False
        self._turns = {device: segment.turns(device) for device in segment.batches}
        self._now = {device: next(turns, None) for device, turns in self._turns.items()}
        self._left, self._groups = [*segment.acts], segment.groups
        self._refreshes = 0
        self._batchers: dict[int, OrderedBatcher] = {}  # by inference device
        self._devices = 1
        self._queues: dict[int, UnrollQueue] = {}  # by inference device
        self._waits, self._seen = 0, (0, 0)  # calls of `ended` without progress
        self.checked = 0
        """Number of digests compared."""

    def began(self, updates: int, frames: int, variables: Mapping[str, Any]) -> None:
        expected = self._segment.begin, self._segment.start["frames"]
        if (updates, frames) != expected:
            raise Differs(f"the run continues from update and frame {expected}, its replay from {updates, frames}")
        self.learned(updates, variables)

    def membership(self, num_envs: int, seed: int, timeout: float, num_devices: int) -> Membership:
        self._devices = num_devices
        return _RecordedLeases(self._segment.joins, num_envs, num_devices)

    def needs(self, actor: int) -> bool:
        """Return whether the replay has come so far that it needs the actor with this number, or soon will."""
        return self._segment.needed_after[actor] <= self._refreshes + 1

    def is_done(self, actor: int) -> bool:
        """Return whether the actor with this number has acted for the last time."""
        return not self._left[actor]

    def batcher(self, device: int, max_batch_size: int, max_wait: float, num_envs: int) -> Batcher:

        def members(groups: Sequence[GroupLease]) -> Sequence[GroupLease] | None:
            with self._changed:
                turn = self._now.get(device)
                groups = [self._groups[number] for number in turn or ()]
                if self._devices > 1 and any(
                    env_id % self._devices != device for own in groups for env_id in own.env_ids
                ):
                    raise OrderFailed(f"the journal has a batch of device {device} with environments of another")
                return groups or None

        self._batchers[device] = OrderedBatcher(max_batch_size, members)
        return self._batchers[device]

    @contextlib.contextmanager
    def acting(self, device: int, groups: Sequence[GroupLease], queue: UnrollQueue) -> Iterator[None]:
        self._queues[device] = queue
        yield
        with self._changed:
            for number in self._now[device] or ():
                self._left[self._segment.owners[number]] -= 1
            self._now[device] = next(self._turns[device], None)
            self._changed.notify_all()

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        if missing := self._turns.keys() - self._batchers.keys():
            raise OrderFailed(f"the run acted on inference device {min(missing)}, here are {len(self._batchers)}")
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not any(self._now.values()))
        yield
        with self._changed:
            for device, turns in self._turns.items():
                self._now[device] = next(turns, None)
            self._refreshes += 1
        for batcher in self._batchers.values():
            batcher.wake()

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        recorded = self._segment.digests.get(updates)
        if recorded is None or not self._check:
            return
        if recorded != (found := digest_of(variables)):
            what = different(self._segment.start["variables"], recorded, found)
            raise Differs(f"after {updates} updates, {what}")
        self.checked += 1

    def ended(self, updates: int, frames: int) -> bool:
        seen = updates, sum(map(len, self._queues.values()))
        waits = seen == self._seen and not any(self._now.values())
        self._waits, self._seen = self._waits + 1 if waits else 0, seen
        if self._waits > _PATIENCE:
            raise OrderFailed(f"the journal has too few batches for update {updates + 1}")
        return updates >= self._end[0] and (self._end[1] is None or frames >= self._end[1])

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class _RecordedLeases(Membership):
    """Gives an actor the recorded lease whose number is its run id, once."""

    def __init__(self, joins: Sequence[Sequence[GroupLease]], num_envs: int, num_devices: int):
        super().__init__(num_envs, 0, math.inf, num_devices=num_devices)
        self._joins = {str(number): join for number, join in enumerate(joins)}

    def _choose(self, group_sizes: Sequence[int], actor: str) -> Sequence[GroupLease]:
        join = self._joins.pop(actor.partition(" ")[0], ())
        if [len(group.env_ids) for group in join] != list(group_sizes):
            raise Refused(Refusal.RESOURCE_EXHAUSTED, "no further actor took part in the recorded run")
        return join
