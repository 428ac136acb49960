"""The learner's components, set up to be measured alone and in turns; only this module knows how to build them."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.streams import random_output
from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import INSERT_AT_MOST, Sizes
from seed_rl.extras.planning.plan import acting_of
from seed_rl.learner.sources import ReplaySource
from seed_rl.runs.assembly import Assembly
from seed_rl.types import Unroll


class ActStepPart:
    """The act step for a single full batch of environments, all of whose steps are recorded."""

    def __init__(self, experiment: Experiment, agent: Agent, batch: int):
        """Build it for an experiment with `batch` environments."""
        self._agent = agent
        self._env_spec = experiment.env_spec()
        self._acting = acting_of(experiment, agent, batch)
        self._env_ids = np.arange(batch, dtype=np.int32)
        self._restarted = np.zeros(batch, bool)
        self._output = random_output(self._env_spec, batch)
        self._acting.cursor.restart(self._env_ids)
        self.advance()

    def advance(self) -> None:
        """Do the bookkeeping of a step's unrolls, freeing finished ones at once."""
        self._writes, finished = self._acting.cursor.advance(self._env_ids)
        self._acting.unrolls.pool.release(finished)

    def act(self) -> np.ndarray:
        """Run an act step, recorded where the last `advance` said; return the actions [B, ...]."""
        return self._acting.act_step(self._env_ids, self._restarted, self._writes, [self._output])

    @property
    def store(self) -> UnrollStore:
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


class LearnerPart:
    """Acting and updates of an experiment in this process, without checkpoints and logs."""

    def __init__(self, experiment: Experiment):
        """Compile the act step and the update."""
        self._experiment = experiment
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as cleanup:
            parts = Assembly().parts(experiment, directory, cleanup)
        self._agent, self._train_step = parts.agent, parts.train_step
        self.service, self._source = parts.service, parts.source
        (self._acting,) = parts.acting
        self._acting.act_step.warm_up()
        self._train_on_blanks()
        self.steps_per_act = min(self._acting.act_step.batch_sizes[-1], experiment.actors.num_training_envs)
        """Number of agent steps of the largest act step; evaluation environments are padding."""
        self.steps_per_update = Sizes.of(experiment, self._agent).new_unrolls * self._agent.unroll_length
        """Number of new agent steps per update; with a replay, it trains on `ratio` times as many."""
        self.failure: BaseException | None = None
        """What ended the thread that learns."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

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

    def networks_alone(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return functions for the network alone, in the largest act step and, with its gradients, in an update."""
        experiment, model = self._experiment, self._agent.model
        one_step = tf.nest.map_structure(lambda spec: tf.zeros([1, self.steps_per_act, *spec.shape], spec.dtype),
                                         self._agent.step_spec._replace(initial_state=()))  # fmt: skip
        unroll = self._acting.unrolls.read_blank(experiment.batch_size // experiment.minibatches)

        @tf.function(autograph=False)
        def forward(steps: Unroll) -> Any:
            return model(steps.prev_action, steps.env_output, model.initial_state(steps.prev_action.shape[1]))[0]

        @tf.function(autograph=False)
        def backward(unroll: Unroll) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                outputs = tf.nest.flatten(forward(unroll))
                total = tf.add_n([tf.reduce_mean(tf.cast(each, tf.float32)) for each in outputs])
            return tape.gradient(total, model.trainable_variables)  # type: ignore[no-any-return]

        def act() -> None:
            tf.nest.map_structure(np.asarray, forward(one_step))

        def train() -> None:
            for _ in range(experiment.passes * experiment.minibatches):
                backward(unroll)[0].numpy()

        return act, train

    def _train_on_blanks(self) -> None:
        batch_size = self._experiment.batch_size
        unroll = self._acting.unrolls.read_blank(batch_size)
        self._train_step(unroll, 0.0, np.ones(batch_size, np.float32))

    def __enter__(self) -> LearnerPart:
        """Learn in a thread from what is acted."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if (batch := self._source.next(timeout=0.2)) is not None:
                    outcome = self._train_step(batch.parts[0], 0.0, batch.importance_weights)
                    self._source.write_back(outcome.priorities)
        except Exception as error:
            self.failure = error


def milliseconds(works: Mapping[str, Callable[[], object]], seconds: float, repeats: int) -> dict[str, list[float]]:
    """Measure milliseconds per call of each function, `repeats` times in `seconds`, after a call that does not count.

    The functions take turns within each repeat, so that drifts in the machine's speed affect all functions equally.
    """
    for work in works.values():
        work()
    result: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started, calls = time.monotonic(), 0
            while (elapsed := time.monotonic() - started) < seconds / repeats or not calls:
                work()
                calls += 1
            result[name].append(1e3 * elapsed / calls)
    return result
