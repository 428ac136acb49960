"""The compiled act step: everything the device does with a batch of observations, in one call."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent
from seed_rl.buffers.rows import Rows
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.experiment.sizes import Sizes
from seed_rl.foreign import kind_of
from seed_rl.specs import CannotAct, EnvSpec
from seed_rl.system import devices
from seed_rl.system.devices import HOST
from seed_rl.system.programs import Program
from seed_rl.types import EnvOutput, Unroll


class Staging:
    """Reusable arrays for batches of one size: the only copy of the observations on the host."""

    def __init__(self, env_spec: EnvSpec, size: int):
        zeros = tf.nest.map_structure(lambda spec: np.zeros((size, *spec.shape), spec.dtype), env_spec.observation)
        self.batch = EnvOutput(np.zeros(size, np.float32), np.zeros(size, bool), np.zeros(size, bool), zeros)
        """The whole batch, fields [size, ...]; rows that the last `fill` didn't write are stale."""
        self._arrays = tf.nest.flatten(self.batch)

    def fill(self, outputs: Sequence[EnvOutput]) -> None:
        """Copy consecutive pieces with fields [B_i, ...] into the first rows."""
        pieces = [tf.nest.flatten(output) for output in outputs]
        rows = sum(len(tensors[0]) for tensors in pieces)
        for to, of_field in zip(self._arrays, zip(*pieces, strict=True), strict=True):
            np.concatenate(of_field, out=to[:rows])


class ActStep:
    """Acts for up to `Sizes.max_batch` environments at a time and appends their steps to the unroll store.

    Per-environment state (recurrent state, previous action) is kept in device variables with one spare row. A batch
    is padded to the next of `batch_sizes`; padding reads and writes the spare row and the spare slot.

    `device` is TensorFlow's name of the device that computes and holds the agent's weights; empty for the default.
    """

    def __init__(self, agent: Agent, store: UnrollStore, sizes: Sizes, seed: int, device: str = ""):
        self.batch_sizes = sizes.act_batches
        self.padding = 0
        """Number of padding rows in the last batch."""
        self._agent = agent
        self._store = store
        self._seed = seed
        self._calls = 0
        self._first_greedy_env = sizes.num_training_envs if sizes.greedy_evaluation else None
        self._device = device
        # Rows of the control array: environment ids, restart flags, places, opened slots.
        self._no_step = np.array([sizes.num_envs, False, store.num_places, store.num_slots], np.int32)[:, None]
        with tf.device(device):
            self._memory = Rows((agent.step_spec.prev_action, agent.state_spec), sizes.num_envs + 1)
        self._declared = ActOutput(agent.step_spec.action, agent.step_spec.behaviour, agent.state_spec)
        # The whole step is one program, unless the store is on the host of an accelerator: then a second program there
        # writes the unrolls. On a CPU a network with convolutions is a plain graph between two compiled parts.
        apart = devices.has_accelerator() and store.device == HOST
        convolves = any(len(variable.shape) > 2 for variable in agent.variables)
        whole = not apart and (devices.has_accelerator() or not convolves)
        self._program = Program(self._act_apart if apart else self._act, jit_compile=whole)
        self._staging = {size: Staging(agent.env_spec, size) for size in self.batch_sizes}

    def __call__(
        self, env_ids: np.ndarray, restarted: np.ndarray, writes: StepWrites, outputs: Sequence[EnvOutput]
    ) -> np.ndarray:
        """Act for B different environments, int32 [B]; return actions [B, ...] as in the environments' spec.

        Their runs begin with this step where bool [B] `restarted`. `writes` are NumPy arrays, the destinations in the
        unroll store; `outputs` are consecutive pieces of the batch, with fields [B_i, ...].
        """
        batch = len(env_ids)
        size = next(size for size in self.batch_sizes if size >= batch)
        self.padding = size - batch
        control = np.repeat(self._no_step, size, axis=1)
        control[:, :batch] = np.vstack([env_ids, restarted, writes.places, writes.opened])
        staging = self._staging[size]
        staging.fill(outputs)
        self._calls = (self._calls + 1) % 2**31
        seed = np.array([self._seed, self._calls], np.int32)
        with tf.device(self._device):
            return self._program(control, staging.batch, seed).numpy()[:batch]

    def warm_up(self, sizes: Sequence[int] | None = None) -> None:
        """Compile some of `batch_sizes`, by default all, by acting on padding alone; others compile on first use."""
        for size in self.batch_sizes if sizes is None else sizes:
            with tf.device(self._device):
                self._program(*self._padding_only(size))

    def program(self, size: int) -> tuple[Any, tuple[Any, ...]]:
        """Return the `tf.function` for one of `batch_sizes`, and its arguments for a batch of padding."""
        return self._program.function, self._padding_only(size)

    def _padding_only(self, size: int) -> tuple[Any, ...]:
        return np.repeat(self._no_step, size, axis=1), self._staging[size].batch, np.zeros(2, np.int32)

    def _act(self, control: tf.Tensor, env_output: EnvOutput, seed: tf.Tensor) -> tf.Tensor:
        step, state = self._decide(control, env_output, seed)
        self._save(control, step, state)
        return step.action

    def _act_apart(self, control: tf.Tensor, env_output: EnvOutput, seed: tf.Tensor) -> tf.Tensor:
        """Do the same as `_act` with the unroll store in the host's memory."""

        @tf.function(jit_compile=True, autograph=False)
        def on_device(control: tf.Tensor, env_output: EnvOutput, seed: tf.Tensor) -> Unroll:
            step, state = self._decide(control, env_output, seed)
            self._remember(control, step, state)
            return step

        on_host = tf.function(self._append, jit_compile=True, autograph=False)
        step = on_device(control, env_output, seed)
        with tf.device(self._store.device):
            # The observations are on the host already: don't copy them back from the device.
            on_host(control, step._replace(env_output=step.env_output._replace(observation=env_output.observation)))
        return step.action

    def _decide(self, control: tf.Tensor, env_output: EnvOutput, seed: tf.Tensor) -> tuple[Unroll, Any]:
        """Return the step to store, with what is stored of the state before it, and the state after it."""
        env_ids, restarted = control[0], tf.cast(control[1], tf.bool)
        env_output = env_output._replace(done=env_output.done | restarted)
        prev_action, state = self._load(env_ids, restarted)
        greedy = False if self._first_greedy_env is None else env_ids >= self._first_greedy_env
        output = self._agent.act(prev_action, env_output, state, env_ids, seed, greedy)
        self._check(output, env_ids.shape[0])
        stored = self._agent.stored_state(state)
        return Unroll(stored, prev_action, env_output, output.action, output.behaviour), output.state

    @tf.function(jit_compile=True, autograph=False)
    def _load(self, env_ids: tf.Tensor, restarted: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Return the batch's previous actions and states, zero where a run begins."""

        def zero_where_restarted(values: tf.Tensor) -> tf.Tensor:
            mask = tf.reshape(restarted, [-1] + [1] * (values.shape.rank - 1))
            return tf.where(mask, tf.zeros_like(values), values)

        return tf.nest.map_structure(zero_where_restarted, self._memory.gather(env_ids))

    @tf.function(jit_compile=True, autograph=False)
    def _save(self, control: tf.Tensor, step: Unroll, state: Any) -> None:
        """Make all writes of a step in one program."""
        self._append(control, step)
        self._remember(control, step, state)

    def _append(self, control: tf.Tensor, step: Unroll) -> None:
        """Store the step, with the state before it, if the store has room for any."""
        if self._store.num_slots:
            self._store.write(StepWrites(places=control[2], opened=control[3]), step)

    def _remember(self, control: tf.Tensor, step: Unroll, state: Any) -> None:
        """Keep action and state for the environments' next steps."""
        self._memory.scatter(control[0], (step.action, state))

    def _check(self, output: ActOutput, size: int) -> None:
        """Raise CannotAct unless the agent has returned what it declares, for a batch of `size` environments."""
        for name, specs in self._declared._asdict().items():
            batched = tf.nest.map_structure(lambda spec: tf.TensorSpec([size, *spec.shape], spec.dtype), specs)
            expected = tf.nest.map_structure(kind_of, batched)
            made = tf.nest.map_structure(tf.convert_to_tensor, getattr(output, name))
            came = tf.nest.map_structure(kind_of, made)
            with contextlib.suppress(TypeError, ValueError):  # of another structure
                tf.nest.assert_same_structure(expected, came)  # a tuple is equal to a named one
                if tf.nest.flatten(expected) == tf.nest.flatten(came):
                    continue
            must = f"{type(self._agent).__name__}.act must return the {name} that its specs declare"
            raise CannotAct(f"{must}, {expected}, got {came}".replace("'", ""))
