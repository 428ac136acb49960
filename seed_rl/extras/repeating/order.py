"""The order in which environments are acted for and weights change: free, or one that is recorded or prescribed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
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

    def membership(self, num_envs: int, seed: int, timeout: float, num_devices: int) -> Membership:
        """Build what leases the environments; see `Membership`."""
        return Membership(num_envs, seed, timeout, num_devices=num_devices)

    def batcher(self, device: int, plain: Batcher, num_envs: int) -> Batcher:
        """Return what composes the batches of an inference device, which serves `num_envs` environments."""
        return plain

    def acting(
        self, device: int, queue: UnrollQueue, requests: Sequence[Request]
    ) -> contextlib.AbstractContextManager[object]:
        """Return the context in which an inference device acts for a batch; `queue` gets its unrolls."""
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
