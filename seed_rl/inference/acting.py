"""Central inference on one device: from actors' requests to finished unrolls in a store."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import Unrolls, UnrollStore
from seed_rl.experiment import Inference
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import ActStep
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.opponents import Opponents, Seats
from seed_rl.inference.order import FREE, Order
from seed_rl.inference.thread import ActingThread


class Acting:
    """An inference device, which serves all environments or a share of them.

    `thread` acts and stores the steps in `unrolls`, except those of the environments from `Sizes.num_training_envs` on.
    """

    def __init__(
        self,
        agent: Agent,
        sizes: Sizes,
        inference: Inference,
        seed: int,
        devices: tuple[str, str] = ("", ""),
        order: Order = FREE,
        number: int = 0,
        league: tuple[Seats, Sequence[Agent]] | None = None,
    ):
        """
        Args:
          agent: chooses the actions; its weights are on the device.
          sizes: the sizes of store, queue and batches.
          inference: the waiting times.
          seed: the seed for sampling actions; must differ each time a run is started.
          devices: TensorFlow's names of the device that acts and the device that holds the unrolls; empty for the
            default.
          order: order of this device's batches.
          number: number of this device among the inference devices.
          league: seats of opponents, and agents on the device that act for them.
        """
        device, store_device = devices
        pool = SlotPool(sizes.num_slots)
        store = UnrollStore(agent.step_spec, sizes.length, sizes.num_slots, store_device)
        self.unrolls = Unrolls(store, pool, UnrollQueue(sizes.queue_capacity))
        own_sizes = sizes
        if league is not None:  # of a full batch, opponents may have a quarter
            batches = {*sizes.act_batches, -(-3 * sizes.max_batch // 4)}
            own_sizes = dataclasses.replace(sizes, act_batches=tuple(sorted(batches)))
        self.act_step = ActStep(agent, store, own_sizes, seed, device)
        self.opponents: Opponents | None = None
        if league is not None:
            self.opponents = Opponents(self.act_step, league[1], sizes, league[0], seed, device, number)
        recorded = np.arange(sizes.num_envs) < sizes.num_training_envs
        self.cursor = UnrollCursor(
            recorded & ~self.opponents.rows if self.opponents else recorded,
            sizes.length,
            sizes.stride,
            pool,
            inference.stagger_unrolls,
        )
        own_envs = len(range(number, sizes.num_envs, sizes.num_devices))
        batcher = order.batcher(number, sizes.max_batch, inference.max_wait_ms / 1000, own_envs)
        self.thread = ActingThread(
            self.opponents or self.act_step, self.cursor, self.unrolls.queue, batcher, order, number
        )

    def warm_up(self) -> None:
        """Compile the act step for the largest batch, or with opponents for every batch."""
        if self.opponents is None:
            self.act_step.warm_up(self.act_step.batch_sizes[-1:])
        else:
            self.opponents.warm_up()
