"""Sizes derived from an experiment: computed only here and read everywhere else."""

import dataclasses
import math
from typing import Any, Self

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.rows import held_as, nbytes
from seed_rl.experiment import Experiment

INSERT_AT_MOST = 32
"""Maximum number of unrolls inserted together, and so of slots that may be in neither the queue nor the replay."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one learner process. With several inference devices, each has an equal share of environments, batches
    and replay, and a size "per device" refers to one of them."""

    num_envs: int
    """N: number of environments of this learner process; their ids are 0 to N - 1."""
    num_training_envs: int
    """Number of training environments, which have the lowest ids; the others are for evaluation."""
    greedy_evaluation: bool
    """Whether the evaluation environments take greedy actions."""
    num_devices: int
    """Number of inference devices."""
    act_batches: tuple[int, ...]
    """Batch sizes for which the act step is compiled, ascending."""
    length: int
    """L: number of steps of an unroll."""
    stride: int
    """T: number of steps between the starts of consecutive unrolls of an environment."""
    batch_size: int
    """B: number of unrolls per update and device."""
    new_unrolls: float
    """Average number of new unrolls per update and device: a batch, or fewer with a replay ratio above 1."""
    queue_capacity: int
    """Maximum number of finished unrolls waiting for the learner, per device; acting stops when it is reached."""
    replay_capacity: int
    """Maximum number of sequences in the replay, per device; 0 without replay."""
    replay_min_size: int
    """Number of sequences in the replay before the first update, per device."""
    num_slots: int
    """Number of unrolls in the store, per device: in progress, queued, being read, or in the replay."""
    num_places: int
    """Number of steps in the store, per device, each of which may belong to several unrolls."""
    places_outside: int
    """Maximum number of steps that unrolls outside of the replay can refer to, per device."""
    window: int
    """Number of steps to which an unroll refers: its own, and those before it whose observations its state needs."""
    state_nbytes: int
    """Size of the state that is stored with an unroll, bytes."""
    step_nbytes: int
    """Size of a stored step, bytes."""

    @classmethod
    def of(cls, experiment: Experiment, agent: Agent, num_devices: int = 1, num_hosts: int = 1) -> Self:
        """Compute the sizes for an experiment with `num_devices` inference devices on each of `num_hosts` learners.

        These have their own environments and an equal part of each batch and of the replay.
        """
        actors, replay = experiment.actors, experiment.replay
        parts = num_devices * num_hosts
        batch_size = experiment.batch_size // parts
        max_batch = min(experiment.inference.max_batch_size, -(-actors.num_envs // num_devices))
        new_unrolls = batch_size / (1.0 if replay is None else replay.ratio)
        queue_capacity = math.ceil(min(batch_size, new_unrolls))
        min_size = 0 if replay is None else -(-replay.min_size // parts)
        capacity = 0 if replay is None else max(min_size, replay.capacity // parts)
        unrolls_per_env = -(-(agent.length - 1) // agent.unroll_length)
        recorded_envs = -(-actors.num_training_envs // num_devices)
        in_progress = recorded_envs * unrolls_per_env
        learning = batch_size if replay is None else INSERT_AT_MOST
        finished = queue_capacity + max_batch + learning  # one more act step may finish unrolls
        window = agent.history + agent.length
        places_outside = (recorded_envs + finished) * window
        return cls(
            num_envs=actors.num_envs,
            num_training_envs=actors.num_training_envs,
            greedy_evaluation=actors.num_eval_envs > 0 and actors.greedy_evaluation,
            num_devices=num_devices,
            act_batches=tuple(sorted({max_batch, -(-max_batch // 2), -(-max_batch // 4)})),
            length=agent.length,
            stride=agent.unroll_length,
            batch_size=batch_size,
            new_unrolls=new_unrolls,
            queue_capacity=queue_capacity,
            replay_capacity=capacity,
            replay_min_size=min_size,
            num_slots=in_progress + finished + capacity,
            # In the replay, unrolls share the steps in which they overlap; twice the rest, so that it is full before
            # too few places are free.
            num_places=capacity * agent.unroll_length + places_outside * (2 if capacity else 1),
            places_outside=places_outside,
            window=window,
            state_nbytes=_nbytes(agent.step_spec.initial_state),
            step_nbytes=_nbytes(agent.step_spec._replace(initial_state=())),
        )

    @classmethod
    def of_policy(cls, num_envs: int, max_batch: int, greedy: bool) -> Self:
        """Compute the sizes of acting for up to `num_envs` evaluation environments, whose steps are not stored."""
        most = min(num_envs, max_batch)
        batches = tuple(sorted({-(-most // 2**halvings) for halvings in range(most.bit_length() + 1)}))
        sizes: dict[str, Any] = dict.fromkeys((field.name for field in dataclasses.fields(cls)), 0)
        sizes |= {"num_envs": num_envs, "greedy_evaluation": greedy, "num_devices": 1, "act_batches": batches}
        return cls(**sizes | {"length": 1, "stride": 1, "queue_capacity": 1})

    @property
    def max_batch(self) -> int:
        """Largest batch size of the act step."""
        return self.act_batches[-1]

    @property
    def num_kept(self) -> int:
        """Number of unrolls in the replay, or without replay in the training batch, per device."""
        return self.replay_capacity or self.batch_size

    @property
    def store_nbytes(self) -> int:
        """Size of the store with its spare slot and place, per device, bytes."""
        return (self.num_slots + 1) * self.state_nbytes + (self.num_places + 1) * self.step_nbytes

    @property
    def kept_nbytes(self) -> int:
        """Size of one more of the unrolls that are kept, bytes: with a replay, it shares the steps of an overlap."""
        return self.state_nbytes + self.step_nbytes * (self.stride if self.replay_capacity else self.window)


def _nbytes(specs: Any) -> int:
    return sum(nbytes(held_as(spec)) for spec in tf.nest.flatten(specs))
