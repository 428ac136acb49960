"""Unrolls in device variables, written step by step by the act step and read as a whole by the learner."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.buffers.rows import Rows
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.types import Unroll


class StepWrites(NamedTuple):
    """Where to store the B steps of an inference batch, NumPy arrays or tensors.

    Steps that are not stored go to the spare place, number `num_places`.
    """

    places: Any
    """int32 [B]"""
    opened: Any
    """int32 [B]: the slot whose unroll begins with this step, to which the state before the step is written; the spare
    slot, number `num_slots`, if none begins."""


class Addresses(NamedTuple):
    """Where B unrolls are stored, NumPy arrays or tensors."""

    slots: Any
    """int32 [B]"""
    places: Any
    """int32 [h + L, B]: of their steps, and of the h steps before them."""


class UnrollStore:
    """Unrolls of `length` steps in device memory: each step is stored once, however many unrolls it belongs to.

    A slot holds the state before an unroll, a place a step; every tensor is updated in place. Others (`SlotPool`, the
    queue, a sampler) keep track of who uses them: a finished unroll is passed on by its slot number, not copied. An
    additional spare slot and a spare place receive all writes that are to be discarded.
    """

    def __init__(
        self,
        step_spec: Unroll,
        num_slots: int,
        num_places: int,
        device: str = "",
        history: int = 0,
        restore: Callable[[Any, Any], Any] = lambda state, observations: state,
    ):
        """Allocate the store for steps of `Agent.step_spec`; an empty name stands for TensorFlow's default device.

        The agent can `restore` its state from the stored part and the observations of the `history` steps before.
        """
        self.num_slots, self.num_places = num_slots, num_places
        self.device = device
        self._history, self._restore = history, restore
        outcome = step_spec.env_output
        with tf.device(device):
            self.states = Rows(step_spec.initial_state, num_slots + 1)
            """The states before unrolls, by slot."""
            rest = step_spec._replace(initial_state=(), env_output=outcome._replace(observation=()))
            self.steps = Rows(outcome.observation, num_places + 1), Rows(rest, num_places + 1)
            """The steps by place: their observations, and everything else."""

    @property
    def variables(self) -> list[tf.Variable]:
        """All variables of the store."""
        return [variable for rows in (self.states, *self.steps) for variable in rows.variables]

    def write(self, writes: StepWrites, step: Unroll) -> None:
        """Store a step of each of B environments, and the state before it. Called within the compiled act step."""
        (observations, rest), outcome = self.steps, step.env_output
        observations.scatter(writes.places, outcome.observation)
        rest.scatter(writes.places, step._replace(initial_state=(), env_output=outcome._replace(observation=())))
        self.states.scatter(writes.opened, step.initial_state)

    @tf.function(autograph=False)
    def read(self, addresses: Addresses) -> Unroll:
        """Copy the B unrolls at these addresses: time-major [L, B, ...], `initial_state` [B, ...]."""
        (observations, rest), history = self.steps, self._history
        with tf.device(self.device):
            observed = observations.gather(addresses.places)
            before = tf.nest.map_structure(lambda tensor: tensor[:history], observed)
            own = tf.nest.map_structure(lambda tensor: tensor[history:], observed)
            unroll: Unroll = rest.gather(addresses.places[history:])
            state = self._restore(self.states.gather(addresses.slots), before)
            return unroll._replace(initial_state=state, env_output=unroll.env_output._replace(observation=own))


class Unrolls(NamedTuple):
    """The unrolls of an inference device, which fills slots of the pool and queues them; the learner returns them."""

    store: UnrollStore
    pool: SlotPool
    queue: UnrollQueue

    def at(self, slots: np.ndarray) -> Addresses:
        """Return where the finished unrolls in `slots`, int32 [B], are stored."""
        return Addresses(tf.constant(slots), tf.constant(self.pool.places[slots].T))

    def read_blank(self, count: int) -> Unroll:
        """Read `count` unrolls of discarded writes, of the shapes of all others."""
        return self.store.read(self.at(np.full(count, self.pool.num_slots, np.int32)))  # type: ignore[no-any-return]
