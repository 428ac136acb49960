"""Every size that follows from an experiment: computed here, once, and read everywhere else."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.rows import held_as, nbytes
from seed_rl.experiment import Experiment

INSERT_AT_MOST = 32
"""Unrolls that enter a replay together, and so slots that may be neither in the queue nor in the replay."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of one learner process. With several inference devices each has an equal share of environments, batches
    and replay; a size "per device" is that of one of them."""

    num_envs: int
    """N: environments of this learner process; their ids are 0 .. N - 1."""
    num_training_envs: int
    """Environments with ids below this are learned from; the others are for evaluation."""
    num_devices: int
    """Inference devices."""
    act_batches: tuple[int, ...]
    """Environments per act step, ascending: the static sizes that it is compiled for."""
    length: int
    """L: steps stored per unroll."""
    stride: int
    """T: steps between the beginnings of consecutive unrolls of an environment."""
    batch_size: int
    """B: unrolls in an update, per device."""
    new_unrolls: float
    """New unrolls that an update takes on average, per device: a batch, or fewer if they are replayed."""
    queue_capacity: int
    """Finished unrolls that may wait for the learner before acting stops, per device."""
    replay_capacity: int
    """Sequences in the replay, per device; 0 without one."""
    replay_min_size: int
    """Sequences in the replay before the first update, per device."""
    num_slots: int
    """Unrolls in the store, per device: unfinished, queued, being read, and replayed ones."""
    slot_nbytes: int
    """Bytes of one unroll, as it is held."""

    @classmethod
    def of(cls, experiment: Experiment, agent: Agent, num_devices: int = 1, num_hosts: int = 1) -> Sizes:
        """The sizes of an experiment.

        Args:
          experiment: of the whole run.
          agent: built for its environments.
          num_devices: inference devices of this learner process.
          num_hosts: learner processes, each with environments of its own and an equal part of each batch.
        """
        actors, replay = experiment.actors, experiment.replay
        batch_size = experiment.batch_size // (num_devices * num_hosts)
        max_batch = min(experiment.inference.max_batch_size, -(-actors.num_envs // num_devices))
        new_unrolls = batch_size / (1.0 if replay is None else replay.ratio)
        queue_capacity = math.ceil(experiment.inference.queue_batches * min(batch_size, new_unrolls))
        min_size = 0 if replay is None else -(-replay.min_size // num_devices)
        capacity = 0 if replay is None else max(min_size, replay.capacity // num_devices)
        unrolls_per_env = -(-(agent.length - 1) // agent.unroll_length)
        in_progress = -(-actors.num_training_envs // num_devices) * unrolls_per_env
        learning = batch_size if replay is None else capacity + INSERT_AT_MOST
        return cls(
            num_envs=actors.num_envs,
            num_training_envs=actors.num_training_envs,
            num_devices=num_devices,
            act_batches=tuple(sorted({max_batch, -(-max_batch // 2), -(-max_batch // 4)})),
            length=agent.length,
            stride=agent.unroll_length,
            batch_size=batch_size,
            new_unrolls=new_unrolls,
            queue_capacity=queue_capacity,
            replay_capacity=capacity,
            replay_min_size=min_size,
            num_slots=in_progress + queue_capacity + max_batch + learning,  # one more act step may finish unrolls
            slot_nbytes=_slot_nbytes(agent),
        )

    @property
    def depth(self) -> int:
        """D: unrolls that a step is written to, where consecutive ones overlap by more than a step."""
        return -(-self.length // self.stride)

    @property
    def max_batch(self) -> int:
        """Environments in the largest act step."""
        return self.act_batches[-1]

    @property
    def num_kept(self) -> int:
        """Unrolls in the replay, or else in the batch that is learned from, per device."""
        return self.replay_capacity or self.batch_size

    @property
    def store_nbytes(self) -> int:
        """Bytes of the store per device, with its spare slot."""
        return (self.num_slots + 1) * self.slot_nbytes


def _slot_nbytes(agent: Agent) -> int:
    def held(specs: Any) -> int:
        return sum(nbytes(held_as(spec)) for spec in tf.nest.flatten(specs))

    spec = agent.step_spec
    return held(spec.initial_state) + agent.length * held(spec._replace(initial_state=()))
