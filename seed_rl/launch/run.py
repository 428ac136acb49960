"""A run from start to end: its directory, the learner in this process, and its actors."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from seed_rl.config_files import common_settings
from seed_rl.envs.base import CannotBuild
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.launch.local_actors import ActorFailed, ActorThreads, LocalActors
from seed_rl.launch.mirror import working_directory
from seed_rl.launch.native_output import load_tensorflow, native_stderr_to
from seed_rl.launch.run_directory import run_directory
from seed_rl.learner.hosts import ALONE, Hosts
from seed_rl.learner.hosts.link import Link
from seed_rl.learner.hosts.rendezvous import rendezvous
from seed_rl.object_store import Store
from seed_rl.specs import CannotAct
from seed_rl.transport.credentials import ServerSecurity

if TYPE_CHECKING:
    from seed_rl.learner.ending import Stop
    from seed_rl.learner.learner import Learner

_log = logging.getLogger(__name__)

PROCESSES = "processes"
"""Each actor in a process of its own, which is restarted when it ends: the normal case."""
THREADS = "threads"
"""Actors in threads of this process, for environments that are only defined here, and for debuggers."""
ELSEWHERE = "elsewhere"
"""The learner waits for `seed_rl actor`."""
ACTORS = (PROCESSES, THREADS, ELSEWHERE)


class Fleet(Protocol):
    """The actors of a run."""

    failed: ActorFailed | None
    """Why they were given up, which ends the run."""

    def start(self, address: str) -> None:
        """Starts them, for the learner at an address."""

    def stop(self) -> None:
        """Ends them."""


NewFleet: TypeAlias = Callable[[str], Fleet]
"""Makes the actors of a run, given the directory for their logs."""


class Run:
    """Trains an experiment, from the newest checkpoint in the log directory if there is one.

    with Run(experiment, "runs/catch") as run:
        for row in run.train():
            print(row["env_frames"], row.get("episode_return"))
    """

    def __init__(
        self,
        experiment: Experiment,
        logdir: str,
        *,
        actors: str | NewFleet = PROCESSES,
        address: str = "",
        security: ServerSecurity | None = None,
        actor_arguments: Sequence[str] = (),
        native_log: bool = False,
        hosts: Hosts = ALONE,
        store: Store | None = None,
    ):
        """
        Args:
          experiment: to train.
          logdir: directory of the run; made if need be. With `gs://` or `s3://` it is kept in an object store.
          actors: one of `ACTORS`, or a function that makes a fleet of another kind.
          address: where actors are served, `host:port` or `unix:/path`; "": a unix socket of the run's own.
          security: the credentials that actors need; None: none, which is enough for a unix socket and loopback.
          actor_arguments: flags of `seed_rl actor` for actor processes, including those that `security` needs.
          native_log: while the run is open, the output of native libraries goes into `native.log`.
          hosts: learners that train together; all but the first write into a directory of their own inside `logdir`.
          store: keeps the log directory, where `logdir` names neither a directory of this machine nor an object store.

        Raises:
          ValueError: `actors` is none of these.
        """
        if not callable(actors) and actors not in ACTORS:
            raise ValueError(f"actors must be one of {', '.join(ACTORS)}, got {actors!r}")
        self.experiment = experiment
        self.logdir = os.path.join(logdir, f"host-{hosts.index}") if hosts.index else logdir
        """Where the run is kept."""
        self._directory = ""  # where it works on this machine; known while the run is open
        self._rows: Generator[dict[str, float], None, None] | None = None
        self._hosts = hosts
        self._store = store
        self._kind = actors
        self._address = address
        self._security = security or ServerSecurity()
        self._actor_arguments = actor_arguments
        self._native_log = native_log
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Run:
        """Opens the log directory.

        Raises:
          ConfigError: it holds a run of another configuration.
          CannotUse: it can't be written, or another learner is running in it.
          CannotReach: it is in an object store that can't be used.
        """
        with contextlib.ExitStack() as cleanup:
            seconds = self.experiment.logs.checkpoint_interval_s
            self._directory = cleanup.enter_context(working_directory(self.logdir, seconds, self._store))
            cleanup.enter_context(run_directory(self._directory, self.experiment, self.logdir))
            if self._native_log:
                cleanup.enter_context(native_stderr_to(os.path.join(self._directory, "native.log")))
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._rows is not None:
                self._rows.close()
        finally:
            self._directory = ""
            self._cleanup.close()

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """Trains until the experiment's frames are done, `stop` is set, or the caller leaves the loop.

        The run then has a checkpoint of that moment. While the caller works on a row the learner waits, and acting
        goes on until its queue is full.

        Args:
          stop: says whether to end; looked at several times a second.

        Yields:
          Each row of `metrics.jsonl`, as soon as it is written.

        Raises:
          ConfigError: the experiment can't be run here: agent, environments, checkpoint or memory.
          AddressError, SecurityError: the address can't be listened on.
          ActorFailed: actors end as soon as they start.
          Diverged: the loss is not finite any more.
          HostLost: another learner host is gone, or never joined.
          CheckpointError: the last checkpoint can't be written.
          RuntimeError: the run is not open: use it in a `with` statement.
        """
        if not self._directory:
            raise RuntimeError("a run trains while it is open: with Run(...) as run")
        self._rows = self._train(stop)
        return self._rows

    def _train(self, stop: Stop | None) -> Generator[dict[str, float], None, None]:
        stopping = _StopOrFailure(stop)
        with rendezvous(self._hosts, common_settings(self.experiment), stopping) as link:
            if link is not None:
                yield from self._train_with(link, stopping)

    def _train_with(self, link: Link, stopping: _StopOrFailure) -> Generator[dict[str, float], None, None]:
        started = time.monotonic()
        learner = self._new_learner(link)
        if learner.finished:
            _log.info(
                "the run in %s is finished: %d frames of %d; more Experiment.total_frames would continue it",
                self.logdir,
                learner.counters.env_frames,
                self.experiment.total_frames,
            )
            return
        actors = stopping.actors = self._new_actors()
        with contextlib.ExitStack() as cleanup:
            if actors is not None:
                cleanup.callback(actors.stop)
            cleanup.callback(learner.close)
            address = learner.listen()
            if learner.restored_from:
                _log.info("continuing from %s at %d frames", learner.restored_from, learner.counters.env_frames)
            if actors is not None and not stopping.is_set():
                actors.start(address)
            _log.info("serving actors at %s after %.1f s", address, time.monotonic() - started)
            yield from learner.train(stopping)
        if actors is not None and actors.failed is not None:
            raise actors.failed
        frames, updates = learner.counters.env_frames, learner.counters.learner_updates
        _log.info("%d frames, %d updates; checkpoints and metrics in %s", frames, updates, self.logdir)

    def _new_learner(self, link: Link) -> Learner:
        _log.info("run in %s; loading TensorFlow", self.logdir)
        load_tensorflow()
        from seed_rl.learner.checkpoints import CheckpointError
        from seed_rl.learner.learner import Learner
        from seed_rl.learner.placement import DoesNotFit
        from seed_rl.learner.split import BadDevices

        address = self._address
        if not address:
            # Not in the log directory: the path of a unix socket is limited to 107 bytes.
            directory = tempfile.mkdtemp(prefix="seed_rl-")
            self._cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
            address = f"unix:{directory}/learner.sock"
        try:
            return Learner(self.experiment, self._directory, address, self._security, link)
        except (BadDevices, CannotAct, CannotBuild, CheckpointError, DoesNotFit) as error:
            raise ConfigError(str(error)) from error

    def _new_actors(self) -> Fleet | None:
        logs = os.path.join(self._directory, "actors")
        if callable(self._kind):
            return self._kind(logs)
        count = self.experiment.actors.num_actors
        if self._kind == THREADS:
            return ActorThreads(count)
        if self._kind == PROCESSES:
            arguments = [f"--import_module={type(self.experiment.env).__module__}", *self._actor_arguments]
            return LocalActors(arguments, count, logs)
        return None


class _StopOrFailure:
    """Set when the caller asks to end, or when the actors have failed."""

    def __init__(self, caller: Stop | None):
        self.actors: Fleet | None = None
        self._caller = caller

    def is_set(self) -> bool:
        """Whether to end."""
        failed = self.actors is not None and self.actors.failed is not None
        return failed or (self._caller is not None and self._caller.is_set())
