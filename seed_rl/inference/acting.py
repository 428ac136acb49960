"""Central inference on one device: from actors' requests to finished unrolls in a store."""

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import Unrolls, UnrollStore
from seed_rl.experiment import Inference
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.order import FREE, Order
from seed_rl.inference.players import AGENT_ALONE, Players
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
        players: Players = AGENT_ALONE,
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
          players: who plays.
        """
        device, store_device = devices
        pool = SlotPool(sizes.num_slots)
        store = UnrollStore(agent.step_spec, sizes.length, sizes.num_slots, store_device)
        self.unrolls = Unrolls(store, pool, UnrollQueue(sizes.queue_capacity))
        self.act_step = players.act_step(agent, store, sizes, seed, device, number)
        env_ids = np.arange(sizes.num_envs)
        recorded = (env_ids < sizes.num_training_envs) & ~players.replaced(env_ids)
        self.cursor = UnrollCursor(recorded, sizes.length, sizes.stride, pool, inference.stagger_unrolls)
        own_envs = len(range(number, sizes.num_envs, sizes.num_devices))
        batcher = order.batcher(number, sizes.max_batch, inference.max_wait_ms / 1000, own_envs)
        self.thread = ActingThread(self.act_step, self.cursor, self.unrolls.queue, batcher, order, number)

    def warm_up(self) -> None:
        """Compile the act step for the largest batch."""
        self.act_step.warm_up(self.act_step.batch_sizes[-1:])
