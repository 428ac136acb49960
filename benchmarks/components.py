"""The learner's parts of an experiment, each alone with the whole machine."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from benchmarks.load import random_output
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.experiment import Experiment
from seed_rl.learner.assembly import assemble
from seed_rl.learner.sources import ReplaySource
from seed_rl.learner.train_step import TrainStep


class LearnerParts:
    """The compiled act step at its largest batch, and the learner's update with all that belongs to it.

    Both count steps that are learned from: `act` runs with the evaluation environments as padding, and `train` counts
    new agent steps, though with a replay an update trains on `ratio` times as many. Inserting into the
    replay is part of `act`; sampling, reading out of the store and writing priorities back are part of `train`.
    """

    def __init__(self, experiment: Experiment):
        env_spec = experiment.env.spec()
        self._experiment = experiment
        self._agent = experiment.build_agent()
        _, [self._acting], source = assemble(experiment, [self._agent], env_spec, experiment.seed)
        self._acting.act_step.warm_up()
        self._replay = source if isinstance(source, ReplaySource) else None
        self._train_step = TrainStep(self._agent, experiment.optimizer)

        batch = min(self._acting.act_step.batch_sizes[-1], experiment.actors.num_training_envs)
        self._env_ids, self._restarted = np.arange(batch, dtype=np.int32), np.zeros(batch, bool)
        self._output = random_output(env_spec, batch)
        self._acting.cursor.restart(self._env_ids)
        while self._replay is not None and len(self._replay) < experiment.batch_size:
            self.act()

    def act(self) -> int:
        """One act step; returns the agent steps."""
        plan = self._acting.cursor.advance(self._env_ids)
        writes = StepWrites(plan.slots, plan.positions, plan.opened)
        self._acting.act_step(self._env_ids, self._restarted, writes, [self._output])
        if self._replay is None:
            self._acting.pool.release(plan.finished)
        elif len(plan.finished):
            self._replay.insert(plan.finished)
        return len(self._env_ids)

    def train(self) -> int:
        """One update; returns the new agent steps that it stands for."""
        if self._replay is None:
            any_slots = tf.zeros([self._experiment.batch_size], tf.int32)
            self._train_step(self._acting.store.read(any_slots), 0.0)
        else:
            drawn = self._replay.draw()
            priorities = self._train_step(drawn.parts[0], 0.0, drawn.importance_weights).priorities
            self._replay.write_back(priorities)
        return round(self._experiment.unrolls_per_update * self._agent.unroll_length)
