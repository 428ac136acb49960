"""The learner's components, set up to be measured alone; only this module knows how to build them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.streams import random_output
from seed_rl.agents.base import Agent
from seed_rl.buffers.samplers import PrioritizedSampler
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.experiment import Experiment, Replay
from seed_rl.experiment.sizes import INSERT_AT_MOST, Sizes
from seed_rl.extras.planning.measuring import acting_of, blank_unroll
from seed_rl.inference.act_step import Staging
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.inference.thread import ActingThread
from seed_rl.learner.assembly import assemble
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.sources import ReplaySource
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ActorSettings, EnvDescription, EnvSpec
from seed_rl.types import EnvOutput, Unroll


def num_weights(agent: Agent) -> int:
    """Count the trainable weights of an agent."""
    return sum(int(variable.value.shape.num_elements()) for variable in agent.trainable_variables)


class ActStepPart:
    """The act step for a single full batch of environments, all of whose steps are recorded."""

    def __init__(self, experiment: Experiment, agent: Agent, batch: int):
        """
        Args:
          experiment: all settings except the number of environments.
          agent: agent that chooses the actions.
          batch: number of environments.
        """
        self._agent = agent
        self._env_spec = experiment.env_spec()
        self._acting = acting_of(experiment, agent, batch)
        self._env_ids = np.arange(batch, dtype=np.int32)
        self._restarted = np.zeros(batch, bool)
        self._output = random_output(self._env_spec, batch)
        self._acting.cursor.restart(self._env_ids)
        self.advance()

    def advance(self) -> int:
        """Do the bookkeeping of a step's unrolls, freeing finished ones at once; return how many unrolls finished."""
        self._writes, finished = self._acting.cursor.advance(self._env_ids)
        self._acting.unrolls.pool.release(finished)
        return len(finished)

    def act(self) -> np.ndarray:
        """Run an act step, recorded where the last `advance` said; return the actions [B, ...]."""
        return self._acting.act_step(self._env_ids, self._restarted, self._writes, [self._output])

    @property
    def store(self) -> UnrollStore:
        """Return the store of the unrolls."""
        return self._acting.unrolls.store

    def program(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the `tf.function` of the act step, and its arguments."""
        return self._acting.act_step.program(len(self._env_ids))

    def network_alone(self, jit_compile: bool) -> Callable[[], np.ndarray]:
        """Return a function that runs `Agent.act` on inputs already on the device."""
        action, batch = self._env_spec.action.tensor, len(self._env_ids)
        observations = tf.nest.map_structure(tf.constant, self._output)
        prev_action, state = tf.zeros([batch, *action.shape], action.dtype), self._agent.initial_state(batch)
        inputs = prev_action, observations, state, tf.range(batch), tf.constant([0, 1])
        forward = tf.function(self._agent.act, jit_compile=jit_compile, autograph=False)
        return lambda: forward(*inputs).action.numpy()


class UpdatePart:
    """The learner's update on a batch of unrolls of random frames, already on the device."""

    def __init__(self, experiment: Experiment, agent: Agent, batch: int):
        """
        Args:
          experiment: settings of the optimizer.
          agent: agent to update, with learning rate 0, because repeated learning from one random batch might diverge.
          batch: number of unrolls.
        """
        optimizer = dataclasses.replace(experiment.optimizer, learning_rate=0.0)
        self._train_step = TrainStep(agent, optimizer, passes=experiment.passes, minibatches=experiment.minibatches)
        self._unroll = _random_unroll(agent, batch)
        self._importance_weights = np.ones(batch, np.float32)

    def update(self) -> None:
        """Run an update and wait for its metrics."""
        self._train_step(self._unroll, 0.0, self._importance_weights)

    def program(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the `tf.function` of an optimizer step, and its arguments."""
        return self._train_step.program(self._unroll, self._importance_weights)


def _random_unroll(agent: Agent, batch: int) -> Unroll:
    """Create unrolls [L, B, ...] of random frames; everything else in them is zero."""

    def frames(spec: tf.TensorSpec) -> tf.Tensor:
        shape = [agent.length, batch, *spec.shape]
        return tf.cast(tf.random.stateless_uniform(shape, [0, 0], 0, 256, tf.int32), spec.dtype)

    unroll = blank_unroll(agent, batch)
    observation = tf.nest.map_structure(frames, agent.step_spec.env_output.observation)
    return unroll._replace(env_output=unroll.env_output._replace(observation=observation))


class ReplayPart:
    """A full prioritized replay of sequences with a few bytes per step."""

    STEP_SPEC = Unroll(
        initial_state=tf.TensorSpec([16], tf.float32),
        prev_action=tf.TensorSpec([], tf.int32),
        env_output=EnvOutput(
            reward=tf.TensorSpec([], tf.float32),
            done=tf.TensorSpec([], tf.bool),
            last=tf.TensorSpec([], tf.bool),
            observation=tf.TensorSpec([4], tf.uint8),
        ),
        action=tf.TensorSpec([], tf.int32),
        behaviour=(),
    )

    def __init__(self, sequences: int, steps: int, batch: int):
        """
        Args:
          sequences: number of sequences in the replay.
          steps: number of steps per sequence.
          batch: number of sequences inserted (and evicted) and drawn at a time.
        """
        self._rng = np.random.default_rng(0)
        self._batch = batch
        self._store = UnrollStore(self.STEP_SPEC, steps, sequences + batch)
        self._fill_store()
        self._pool = SlotPool(self._store.num_slots)
        exponents = Replay().priority_exponent, Replay().importance_exponent
        self._replay = PrioritizedSampler(sequences, self._store.num_slots, 0, *exponents)
        self._replay.insert(self._pool.acquire(sequences), self._rng.exponential(size=sequences))
        self._slots = np.zeros(0, np.int32)

    def insert(self) -> None:
        """Replace the oldest sequences by a batch of new ones."""
        slots = self._pool.acquire(self._batch)
        self._pool.release(self._replay.insert(slots, self._rng.exponential(size=self._batch)))

    def sample(self) -> None:
        """Draw the batch for the next `read` and `update`."""
        self._slots = self._replay.sample(self._batch).slots

    def read(self) -> None:
        """Copy the batch out of the store and wait for the device."""
        self._store.read(tf.constant(self._slots)).env_output.reward.numpy()

    def update(self) -> None:
        """Update the priorities of the batch."""
        self._replay.update(self._slots, self._rng.exponential(size=self._batch))

    def _fill_store(self) -> None:
        """Write every byte, because memory that was never written isn't resident and reads too fast."""
        chunk = 1024
        write = tf.function(self._store.write, autograph=False)
        step = tf.nest.map_structure(lambda spec: tf.ones([chunk, *spec.shape], spec.dtype), self.STEP_SPEC)
        for start in range(0, self._store.num_slots, chunk):
            slots = tf.minimum(tf.range(start, start + chunk), self._store.num_slots)
            for position in range(self._store.length):
                write(StepWrites(slots[None], tf.fill([1, chunk], position), slots), step)


class LearnerPart:
    """Acting and updates of an experiment in this process, without checkpoints and logs."""

    def __init__(self, experiment: Experiment):
        """Compile the act step and the update."""
        self._experiment = experiment
        self._agent = experiment.build_agent()
        self.service, [self._acting], self._source, _ = assemble(
            experiment, self._agent, experiment.seed, Replicas(experiment)
        )
        self._acting.act_step.warm_up()
        passes, minibatches = experiment.passes, experiment.minibatches
        self._train_step = TrainStep(self._agent, experiment.optimizer, passes=passes, minibatches=minibatches)
        self._train_on_blanks()
        self.steps_per_act = min(self._acting.act_step.batch_sizes[-1], experiment.actors.num_training_envs)
        """Number of agent steps of the largest act step; evaluation environments are padding."""
        self.steps_per_update = Sizes.of(experiment, self._agent).new_unrolls * self._agent.unroll_length
        """Number of new agent steps per update; with a replay, it trains on `ratio` times as many."""

    def step_by_step(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return functions for the largest act step and the update, callable in any order.

        With a replay, the former includes insertion, the latter sampling, reading and updating priorities.
        """
        experiment, acting, source = self._experiment, self._acting, self._source
        env_ids, restarted = np.arange(self.steps_per_act, dtype=np.int32), np.zeros(self.steps_per_act, bool)
        output = random_output(experiment.env_spec(), self.steps_per_act)
        acting.cursor.restart(env_ids)

        def act() -> None:
            writes, finished = acting.cursor.advance(env_ids)
            acting.act_step(env_ids, restarted, writes, [output])
            if not isinstance(source, ReplaySource):
                acting.unrolls.pool.release(finished)
            else:
                for start in range(0, len(finished), INSERT_AT_MOST):
                    source.insert(finished[start : start + INSERT_AT_MOST])

        def train() -> None:
            if isinstance(source, ReplaySource):
                drawn = source.draw()
                source.write_back(self._train_step(drawn.parts[0], 0.0, drawn.importance_weights).priorities)
            else:
                self._train_on_blanks()

        while isinstance(source, ReplaySource) and source.taken < experiment.batch_size:
            act()
        return act, train

    def _train_on_blanks(self) -> None:
        batch_size = self._experiment.batch_size
        unroll = self._acting.unrolls.store.read(tf.zeros([batch_size], tf.int32))
        self._train_step(unroll, 0.0, np.ones(batch_size, np.float32))

    def learn(self) -> bool:
        """Run an update on the next batch of unrolls; return False if none is completed within a moment."""
        batch = self._source.next(timeout=0.2)
        if batch is None:
            return False
        self._source.write_back(self._train_step(batch.parts[0], 0.0, batch.importance_weights).priorities)
        return True

    def discard(self) -> bool:
        """Take finished unrolls and free their slots, instead of `learn`; return False."""
        queue = self._acting.unrolls.queue
        slots = queue.take(max(1, len(queue)), 0.2)
        if slots is not None:
            self._acting.unrolls.pool.release(slots)
        return False


class Consumer:
    """A thread that consumes finished unrolls while the context is open."""

    def __init__(self, consume: Callable[[], bool]):
        """
        Args:
          consume: `LearnerPart.learn` or `LearnerPart.discard`.
        """
        self.updates = 0
        self.failure: BaseException | None = None
        self._consume = consume
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)

    def __enter__(self) -> Consumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.updates += self._consume()
        except Exception as error:
            self.failure = error


def null_inference(env_spec: EnvSpec, num_envs: int, batch_size: int) -> CentralInference:
    """Central inference that batches observations, answers with zeros and records nothing."""
    thread = ActingThread(
        act_step=_NullActStep(env_spec, batch_size),  # type: ignore[arg-type]
        cursor=UnrollCursor(np.zeros(num_envs, bool), 2, 1, SlotPool(1), False),
        queue=UnrollQueue(1),
        batcher=Batcher(batch_size, max_wait=0.002),
    )
    settings = ActorSettings(EnvDescription("none", {}), 1, 1)
    return CentralInference(settings, env_spec, Membership(num_envs, 0, 60.0), [thread])


class _NullActStep:
    """Copies observations into a batch, as the act step does, and answers with zeros."""

    padding = 0

    def __init__(self, env_spec: EnvSpec, batch_size: int):
        self._staging = Staging(env_spec, batch_size)
        action = env_spec.action.tensor
        self._actions = np.zeros((batch_size, *action.shape), action.dtype)

    def __call__(
        self, env_ids: np.ndarray, restarted: np.ndarray, writes: StepWrites, outputs: Sequence[EnvOutput]
    ) -> np.ndarray:
        self._staging.fill(outputs)
        return self._actions[: len(env_ids)]
