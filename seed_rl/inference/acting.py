"""Puts the parts of central inference together: from actors' calls to finished unrolls in a store."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import ActStep, unroll_step_spec
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.episodes import Episodes
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.inference.thread import ActingThread
from seed_rl.specs import ActorSettings, EnvSpec


class Acting:
    """What acts on one device, for some or all of the environments.

    What `thread` acts ends up in `store`, and the slots of finished unrolls in `queue`. Whoever takes slots out of the
    queue gives them back to `pool` when done with them.

    Environments from `num_training_envs` on act, but their steps are not kept.
    """

    def __init__(
        self,
        experiment: Experiment,
        agent: Agent,
        env_spec: EnvSpec,
        seed: int,
        learner_slots: int,
        device: str = "",
        store_device: str = "",
        on_episodes: Callable[[Episodes], None] = lambda episodes: None,
        num_devices: int = 1,
    ):
        """
        Args:
          experiment: sizes and waits; the device's own part of it (`Experiment.part`) if there are several.
          agent: chooses the actions.
          env_spec: of the environments it acts in.
          seed: of sampled actions; another one for each start of a run.
          learner_slots: the most finished unrolls that are out of the queue and not yet back in the pool.
          device: where it acts, as TensorFlow names it; empty: on the default device.
          store_device: where the unrolls are kept; empty: on the default device.
          on_episodes: called on the inference thread with episodes that ended.
          num_devices: that share the environments evenly.
        """
        inference, num_envs = experiment.inference, experiment.actors.num_envs
        max_batch = _max_batch(experiment, num_devices)
        step_spec = unroll_step_spec(agent, env_spec)

        self.queue = UnrollQueue(queue_capacity(experiment))
        self.pool = SlotPool(acting_slots(experiment, agent, num_devices) + learner_slots)
        self.store = UnrollStore(step_spec, agent.length, self.pool.num_slots, store_device)
        self.cursor = UnrollCursor(
            np.arange(num_envs) < experiment.actors.num_training_envs,
            agent.length,
            agent.unroll_length,
            self.pool,
            inference.stagger_unrolls,
        )
        self.act_step = ActStep(
            agent,
            env_spec,
            step_spec,
            self.store,
            num_envs=num_envs,
            depth=self.cursor.depth,
            batch_sizes=_batch_sizes(max_batch),
            seed=seed,
            device=device,
        )
        self.thread = ActingThread(
            num_envs=num_envs,
            act_step=self.act_step,
            cursor=self.cursor,
            queue=self.queue,
            batcher=Batcher(max_batch, inference.max_wait_ms / 1000),
            on_episodes=on_episodes,
        )


def queue_capacity(experiment: Experiment) -> int:
    """Finished unrolls that may wait for the learner before acting stops."""
    return math.ceil(experiment.inference.queue_batches * min(experiment.batch_size, experiment.unrolls_per_update))


def acting_slots(experiment: Experiment, agent: Agent, num_devices: int = 1) -> int:
    """The most unrolls that acting holds at a time on each of several devices that share the environments.

    Those in progress, in a full queue, and finished by one more batch.
    """
    num_training_envs = -(-experiment.actors.num_training_envs // num_devices)
    in_progress = UnrollCursor.slots_in_progress(num_training_envs, agent.length, agent.unroll_length)
    return in_progress + queue_capacity(experiment) + _max_batch(experiment, num_devices)


def central_inference(
    experiment: Experiment, env_spec: EnvSpec, seed: int, acting: Sequence[Acting]
) -> CentralInference:
    """What serves actors.

    Args:
      experiment: sizes and waits, of all devices together.
      env_spec: of the environments.
      seed: of the environments; another one for each start of a run.
      acting: for each device.
    """
    actors = experiment.actors
    return CentralInference(
        ActorSettings(experiment.env.describe(), actors.groups_per_actor, actors.envs_per_group),
        env_spec,
        Membership(actors.num_envs, seed, experiment.inference.lease_timeout_s, num_devices=len(acting)),
        [each.thread for each in acting],
    )


def _max_batch(experiment: Experiment, num_devices: int) -> int:
    return min(experiment.inference.max_batch_size, -(-experiment.actors.num_envs // num_devices))


def _batch_sizes(max_batch: int) -> list[int]:
    """The sizes that the act step is compiled for: the largest, its half and its quarter."""
    return sorted({max_batch, -(-max_batch // 2), -(-max_batch // 4)})
