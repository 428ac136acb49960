"""Central inference on one device: from actors' requests to finished unrolls in a store."""

from collections.abc import Callable

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import Unrolls, UnrollStore
from seed_rl.experiment import Inference
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import ActStep
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.thread import ActingThread
from seed_rl.system.devices import first_accelerator


class Acting:
    """An inference device, for all environments or a share: `thread` acts and stores the steps in `unrolls`."""

    def __init__(
        self,
        agent: Agent,
        sizes: Sizes,
        inference: Inference,
        seed: int,
        devices: tuple[str, str] = ("", ""),
        *,
        recorded: np.ndarray | None = None,
        act_step: Callable[[UnrollStore], ActStep] | None = None,
        batcher: Callable[[UnrollQueue], Batcher] | None = None,
    ):
        """
        Args:
          agent: chooses the actions; its weights are on the device.
          seed: the seed for sampling actions; must differ each time a run is started.
          devices: TensorFlow's names of the device that acts and of the one that holds the unrolls; "": the first
            accelerator, or the CPU without one.
          recorded: bool [N], which environments' steps are stored; by default all training environments'.
          act_step, batcher: build these in another way, given the store and the queue of unrolls that are filled.
        """
        device, store_device = devices
        # By name: with its default, TensorFlow puts a GPU's act step on the CPU, and then refuses it.
        store_device = store_device or first_accelerator()
        pool = SlotPool(sizes.num_slots, sizes.num_places, sizes.window)
        places = sizes.num_slots, sizes.num_places
        store = UnrollStore(agent.step_spec, *places, store_device, agent.history, agent.restored_state)
        self.unrolls = Unrolls(store, pool, UnrollQueue(sizes.queue_capacity))
        self.act_step = act_step(store) if act_step else ActStep(agent, store, sizes, seed, device)
        recorded = np.arange(sizes.num_envs) < sizes.num_training_envs if recorded is None else recorded
        self.cursor = UnrollCursor(recorded, sizes.length, sizes.stride, pool, inference.stagger_unrolls)
        batches = batcher or (lambda queue: Batcher(sizes.max_batch, inference.max_wait_ms / 1000))
        self.thread = ActingThread(self.act_step, self.cursor, self.unrolls.queue, batches(self.unrolls.queue))
