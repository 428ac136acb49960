"""The learner process: assembles store, inference and server around an agent, and runs the one training loop."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np

from seed_rl.experiment import Experiment
from seed_rl.inference.order import FREE, Order
from seed_rl.learner.agreed_source import AgreedSource
from seed_rl.learner.assembly import assemble, server_of
from seed_rl.learner.checkpoints import name_variables
from seed_rl.learner.collectives import NO_OTHERS, Link
from seed_rl.learner.ending import Diverged, Stop
from seed_rl.learner.progress import Counters, Progress
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.saving import Saver
from seed_rl.learner.sources import Batch
from seed_rl.learner.train_step import TrainStep, Update
from seed_rl.learner.warm_start import warm_start
from seed_rl.reporting.run_log import RunLog, RunState
from seed_rl.reporting.sinks import sinks_of
from seed_rl.reporting.wandb_run import check_wandb
from seed_rl.transport.credentials import ServerSecurity

_log = logging.getLogger(__name__)

PATIENCE = 20
"""Updates in a row with a step that is not finite: observations and rewards have bounds, so it is the weights."""


class Learner:
    """Trains an experiment's agent on the experience of actors, from the newest checkpoint in the log directory.

    learner = Learner(experiment, logdir, address, security)
    learner.listen()      # actors may come
    for row in learner.train(stop):   # compiles, then acts and trains
        print(row["env_frames"])
    learner.close()
    """

    def __init__(
        self,
        experiment: Experiment,
        logdir: str,
        address: str,
        security: ServerSecurity,
        link: Link = NO_OTHERS,
        order: Order = FREE,
    ):
        """
        Args:
          experiment: complete configuration.
          logdir: directory of checkpoints and metrics.
          address: address at which actors are served, `host:port` or `unix:/path`.
          security: credentials of the server.
          link: connection to other hosts that train the same model.
          order: order of acting and learning.

        Raises:
          BadDevices: the requested devices don't exist, or don't fit the batch.
          CannotAct: the agent does not support these environments.
          CannotBuild: the environments can't be built here to read their spaces.
          CheckpointError: the newest checkpoint is not usable, or `Experiment.init_from` isn't.
          ConfigError: Weights & Biases can't be used here, or hosts differ in their environments or devices.
          HostLost: another host is gone.
          DoesNotFit: the replay needs more memory than is free.
        """
        check_wandb(experiment.logs)
        self._experiment, self._logdir, self._link, self._order = experiment, logdir, link, order
        link.compare({"the environments' spaces": repr(experiment.env_spec())})  # shapes depend on them
        replicas = self._replicas = Replicas(experiment, link.hosts)
        link.compare({"the training devices": list(replicas.split.training)})
        with replicas.scope():
            agent = self._agent = experiment.build_agent()
            self._train_step = TrainStep(
                agent,
                experiment.optimizer,
                replicas.strategy,
                experiment.passes,
                experiment.minibatches,
                link,
            )
        self._variables = variables = {
            **name_variables("agent", agent.variables),
            **{f"optimizer/{name}": variable for name, variable in self._train_step.variables.items()},
        }
        self._progress = Progress(experiment.actors.num_training_envs)
        self._saver = Saver(logdir, experiment.logs, variables, self._progress, replicas.is_first)
        self.restored_from = self._saver.restore()
        """Path of the checkpoint that the run continues from; None for a new run, and on all hosts but the first."""
        if experiment.init_from and replicas.is_first:
            ignored = f"continuing {self.restored_from}: --init_from is only for new runs"
            _log.info("%s", ignored if self.restored_from else warm_start(agent, experiment))
        self._share(variables)
        # Also a barrier: if a host ends once all are here, no other host waits for its weights.
        self._progress.counters = Counters(**link.gather(dataclasses.asdict(self.counters))[0])

        order.began(self.counters.learner_updates, self.counters.env_frames, variables)
        self._service, self._acting, self._source, self._refresh = assemble(
            experiment, agent, self._seed(), replicas, order
        )
        self._left_out_in_a_row = 0
        self._refresh(self.counters.learner_updates)
        self._progress.attach(self._service, [acting.cursor for acting in self._acting])
        self._saver.attach(self._source.snapshot, self.restored_from is not None, order)
        self._batches = AgreedSource(self._source, self.counters, link, experiment)
        self._server = server_of(self._service, agent.env_spec, experiment.inference, address, security)

    def _share(self, variables: Mapping[str, Any]) -> None:
        """Copy weights and optimizer state from host 0, which has the checkpoint, to all hosts."""
        if self._link.hosts.count > 1:
            own = {name: variable.numpy() for name, variable in variables.items()}
            # They differ where the code of a network or an agent does.
            self._link.compare({f"the shape of {name}": f"{a.dtype} {list(a.shape)}" for name, a in own.items()})
            for variable, array in zip(variables.values(), self._link.of_first(list(own.values())), strict=True):
                variable.assign(array)

    def _seed(self) -> int:
        """Seed that differs between starts of a run and between hosts: none repeats another's random numbers."""
        index = self._link.hosts.index
        entropy = [self._experiment.seed, self.counters.learner_updates, *([index] if index else [])]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    @property
    def counters(self) -> Counters:
        """Totals of the run."""
        return self._progress.counters

    @property
    def finished(self) -> bool:
        """Whether the run has trained on all of its frames."""
        return self.counters.env_frames >= self._experiment.total_frames

    def listen(self) -> str:
        """Start to serve actors and return the address. They get their first actions once `train` has compiled.

        Raises:
          AddressError: the address can't be listened on.
        """
        return self._server.start()

    def train(
        self, stop: Stop, on_update: Callable[[], None] = lambda: None
    ) -> Generator[dict[str, float], None, None]:
        """Train until the run's frames are done, `stop` is set, or the caller leaves; then save a last checkpoint.

        Args:
          stop: event that ends the run.
          on_update: function called after each update.

        Yields:
          Each row of metrics.

        Raises:
          Diverged: updates are not finite any more.
          HostLost: another host is gone.
          CheckpointError: the last checkpoint could not be written.
          RuntimeError: inference failed.
        """
        for acting in self._acting:
            acting.act_step.warm_up()
        self._service.start()
        self._saver.begin()
        began = time.monotonic() - self.counters.seconds
        log = self._open_log()
        try:
            with self._saver.last_checkpoint(on_leaving=self._batches.leave):
                while True:
                    with log.waiting():
                        ends = self._order.ended(self.counters.learner_updates, self.counters.env_frames)
                        batch = self._batches.next(leave=stop.is_set() or self.finished or ends)
                    self._service.raise_failure()
                    if self._batches.left:
                        break
                    if batch is not None and (metrics := self._update(batch)):
                        log.add_update(metrics)
                        on_update()
                    self.counters.seconds = time.monotonic() - began
                    if (row := log.row_if_due()) is not None:
                        yield row
                    self._saver.save_if_due()
        finally:
            last = log.close()
        if last is not None:
            yield last

    def _open_log(self) -> RunLog:
        resume_frames = self.counters.env_frames if self.counters.learner_updates or self.restored_from else None
        sinks = sinks_of(self._experiment, self._logdir, resume_frames, is_first=self._replicas.is_first)
        return RunLog(self._run_state, sinks, self._experiment.logs.metrics_interval_s)

    def _update(self, batch: Batch) -> dict[str, float]:
        """Update from this host's part of a batch; return the metrics, or none if every step was skipped."""
        counters = self.counters
        progress = self._batches.env_frames / self._experiment.total_frames
        with self._replicas.scope():
            unroll = self._replicas.joined(batch.parts)
            seed = (self._experiment.seed, counters.learner_updates)
            with self._link.losses_named():
                update = self._train_step(unroll, progress, batch.importance_weights, seed)
        self._count_left_out(update)
        self._source.write_back(update.priorities)
        if not update.metrics:
            return {}
        metrics = update.metrics
        metrics["queue_fill"] = float(np.mean([acting.unrolls.queue.fill for acting in self._acting]))
        metrics["policy_lag"] = float(np.mean(counters.learner_updates - batch.versions))
        counters.learner_updates += 1
        counters.optimizer_steps += update.optimizer_steps
        self._agent.after_update(counters.learner_updates)
        self._refresh(counters.learner_updates)
        self._order.learned(counters.learner_updates, self._variables)
        return metrics

    def _count_left_out(self, update: Update) -> None:
        self.counters.left_out_steps += update.left_out
        self._left_out_in_a_row = self._left_out_in_a_row + 1 if update.left_out else 0
        if self._left_out_in_a_row == 1:
            _log.warning("%d steps of an update were left out: their gradients are not finite", update.left_out)
        if self._left_out_in_a_row >= PATIENCE:
            raise Diverged(f"gradients of {PATIENCE} updates in a row were not finite: the weights can't be helped")

    def _run_state(self) -> RunState:
        return RunState(
            counters=self._progress.totals(),
            gauges={
                **self._progress.gauges(),
                **self._source.gauges(),
                "actors": self._service.actors,
                "environments": self._service.leased_envs,
            },
            inference=dataclasses.asdict(self._service.stats),
        )

    def close(self, over: bool = False) -> None:
        """Stop serving and acting, after `listen`. Actors end if the run is `over`, else wait for it to continue."""
        self._service.stop()  # first: it answers on the server's streams
        self._server.stop(grace=0.5, over=over)
