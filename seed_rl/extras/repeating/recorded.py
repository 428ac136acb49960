"""Records the order of acting and learning in a journal."""

import contextlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.extras.repeating.file import Writer
from seed_rl.extras.repeating.segments import digest
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.inference.order import FREE, Order
from seed_rl.specs import GroupLease, Lease
from seed_rl.system.files import reason

_log = logging.getLogger(__name__)


def digest_of(variables: Mapping[str, Any]) -> str:
    """Return the `digest` of Keras variables."""
    return digest(np.asarray(variable.numpy()) for variable in variables.values())


class Recorded(Order):
    """Records the order that another one gives. A journal that can't be written ends there, but the run continues."""

    def __init__(
        self, journal: Writer, start: Mapping[str, Any], every: int, part_frames: int = 0, order: Order = FREE
    ):
        """
        Args:
          journal: journal to write.
          start: description of the process that starts, JSON values.
          every: number of updates between digests.
          part_frames: number of frames whose multiples end a part of the run; 0: it has one part.
          order: order to record.
        """
        self.whole_weights = order is FREE
        self._journal: Writer | None = journal
        self._start, self._every, self._order = start, every, order
        self._part_frames, self._begin = part_frames, 0
        self._numbers: dict[int, int] = {}  # of groups, by their seed, which no other group has
        self._turns: dict[int, threading.Lock] = {}  # by device

    def began(self, updates: int, frames: int, variables: Mapping[str, Any]) -> None:
        start = {**self._start, "updates": updates, "frames": frames, "variables": [*variables]}
        self._begin = frames
        self._write("run", start)
        self._write(f"digest {updates} {digest_of(variables)}")

    def membership(self, num_envs: int, seed: int, timeout: float, num_devices: int) -> Membership:
        return self._order.membership(num_envs, seed, timeout, num_devices)

    def joined(self, lease: Lease) -> None:
        for group in lease.groups:
            self._numbers[group.seed] = len(self._numbers)
        self._write("join", [[group.env_ids, group.seed] for group in lease.groups])

    def batcher(self, device: int, max_batch_size: int, max_wait: float, num_envs: int) -> Batcher:
        self._turns[device] = threading.Lock()
        return self._order.batcher(device, max_batch_size, max_wait, num_envs)

    @contextlib.contextmanager
    def acting(self, device: int, groups: Sequence[GroupLease], queue: UnrollQueue) -> Iterator[None]:
        with self._order.acting(device, groups, queue), self._turns[device]:
            self._write(f"act {device} {' '.join(str(self._numbers[group.seed]) for group in groups)}")
            yield

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        with contextlib.ExitStack() as turns:
            turns.enter_context(self._order.refreshing())
            for turn in self._turns.values():
                turns.enter_context(turn)
            self._write("weights")
            yield

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        if updates % self._every == 0:
            self._write(f"digest {updates} {digest_of(variables)}")

    def saving(self, updates: int, variables: Mapping[str, Any]) -> None:
        if updates % self._every:
            self._write(f"digest {updates} {digest_of(variables)}")
        self._tolerant(Writer.flush)

    def ended(self, updates: int, frames: int) -> bool:
        self.goes_on = self._part_frames > 0 and frames // self._part_frames > self._begin // self._part_frames
        return self.goes_on

    def close(self) -> None:
        """End the journal."""
        self._order.close()
        self._tolerant(Writer.close)
        self._journal = None

    def _write(self, line: str, value: Any = None) -> None:
        text = "" if value is None else " " + json.dumps(value, separators=(",", ":"))
        self._tolerant(Writer.write, line + text)

    def _tolerant(self, act: Any, *arguments: str) -> None:
        journal = self._journal
        if journal is None:
            return
        try:
            act(journal, *arguments)
        except OSError as error:
            self._journal = None
            _log.error("the journal ends here, because it can't be written (%s); training continues", reason(error))
