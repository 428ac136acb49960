"""A complete run: its directory, its actors, and the learner in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import logging
import os
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from seed_rl.errors import Failure, OthersGone
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.foreign import short_repr
from seed_rl.learner.actor_server import server_of
from seed_rl.runs.fleet import ACTORS, ELSEWHERE, PROCESSES, THREADS, Fleet, local_actors
from seed_rl.runs.run_directory import CannotUse, record_configuration, run_directory
from seed_rl.system.entry_points import declarations
from seed_rl.system.files import allow_many_files, explaining, socket_directory
from seed_rl.system.native_output import load_tensorflow, native_stderr_to
from seed_rl.system.signals import Stop, StopFlag, StopIf, ctrl_c_asks
from seed_rl.transport.credentials import ServerSecurity

if TYPE_CHECKING:
    from seed_rl.learner.learner import Learner
    from seed_rl.runs.assembly import Assembly

_log = logging.getLogger(__name__)

ENTRY_POINTS = "seed_rl.runs"
"""The entry-point group in which packages declare functions that may change a new `Run`, by its settings or place."""
_FAREWELL_SECONDS = 6.0  # more than an actor waits until it looks for a learner again


@dataclasses.dataclass(eq=False)
class Run:
    """Trains an experiment, starting from the newest checkpoint in the log directory if there is one.

    ```python
    with Run(experiment, "runs/catch") as run:
        for row in run.train():
            print(row["env_frames"], row.get("episode_return"))
    ```
    """

    experiment: Experiment
    logdir: str
    """Log directory, created if missing, or a place that a neighbour knows."""
    _: dataclasses.KW_ONLY
    actors: str | Callable[[str], Fleet] = PROCESSES
    """One of `ACTORS`, or a function that creates another kind of fleet, given the directory for its logs."""
    address: str = ""
    """Address on which to serve actors, `host:port` or `unix:/path`; "": a private unix socket."""
    security: ServerSecurity = dataclasses.field(default_factory=ServerSecurity)
    """Credentials that actors must have; by default none, which suffices for unix sockets and loopback."""
    actor_arguments: Sequence[str] = ()
    """Flags of `seed_rl actor` for actor processes, including credentials that match `security`."""
    native_log: bool = False
    """Redirect the output of native libraries to `native.log` while the run is open."""
    accelerator: str = ""
    """`gpu` or `tpu`: refuse to train without one; "": train on what there is."""
    changes: list[Callable[[Assembly], Assembly]] = dataclasses.field(default_factory=list)
    """Functions that replace parts of the learner, in this order; called once TensorFlow has been loaded."""
    on_update: Callable[[], None] = lambda: None
    """Called after each update, on the training thread."""

    def __post_init__(self) -> None:
        if not isinstance(self.experiment, Experiment):
            wanted = "an Experiment, such as load_experiment(['catch/vtrace'])"
            raise TypeError(f"experiment must be {wanted}, got {short_repr(self.experiment)}")
        self.logdir = os.fspath(self.logdir)  # callers may pass a pathlib.Path
        if not callable(self.actors) and self.actors not in ACTORS:
            raise ValueError(f"actors must be one of {', '.join(ACTORS)}, got {self.actors!r}")
        self.index, self.learners = 0, 1
        """Number of this learner among those that train together, and their number."""
        self.is_alone = ""
        """What about the run makes it need a single learner; "": nothing."""
        self.directory: Callable[[], contextlib.AbstractContextManager[str]] = self._local_directory
        """Opens the directory of this machine in which the run works."""
        self.flush: Callable[[], None] = lambda: None
        """Brings what is in that directory to where the run is kept; may raise CannotUse or Failure."""
        self.meet: Callable[[Stop], bool] = lambda stop: True
        """Waits for other learners, before TensorFlow makes its devices; returns False if it was stopped."""
        self._directory = ""  # local working directory while the run is open
        self._rows: Generator[dict[str, float], None, None] | None = None
        self._cleanup = contextlib.ExitStack()
        self._has_failed = False  # the caller, in the loop over rows
        for entry in declarations(ENTRY_POINTS):
            entry.load()(self)

    def _local_directory(self) -> contextlib.AbstractContextManager[str]:
        if "://" in self.logdir:
            raise CannotUse(f"{self.logdir} is a URL, and nothing here can keep a run there: expected a local path")
        return contextlib.nullcontext(self.logdir)

    def __enter__(self) -> Run:
        """Open the log directory.

        Raises CannotUse, Failure if another learner runs in it, ConfigError if it has another configuration, CannotAct
        and CannotBuild.
        """
        if self.is_alone and self.learners > 1:
            raise ConfigError(f"{self.is_alone} needs a single learner host, this run has {self.learners}")
        allow_many_files()
        if self.actors in (PROCESSES, THREADS):
            self.experiment.env.check_packages()
        with contextlib.ExitStack() as cleanup:
            self._directory = cleanup.enter_context(self.directory())
            cleanup.enter_context(run_directory(self._directory, self.experiment, self.logdir))
            if self.native_log:
                path = os.path.join(self._directory, "native.log")
                with explaining(CannotUse, f"{path} can't be written"):
                    cleanup.enter_context(native_stderr_to(path))
            self.experiment.agent.check(self.experiment.env_spec())  # before TensorFlow is loaded
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._has_failed = error is not None
        with contextlib.closing(self._cleanup):
            self._directory = ""
            if self._rows is not None:
                self._rows.close()

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """Train until `total_frames` are reached, `stop` is set, or the caller leaves the loop; then save a checkpoint.

        `stop` is asked several times a second. Without it, Ctrl-C also ends training this way and then raises
        KeyboardInterrupt. While the caller processes a row, the learner waits, and acting continues until its queue is
        full.

        Yields:
          The metrics of every `Logs.metrics_interval_s` seconds, and of a shorter last interval; `metrics.jsonl` has
            at least 100 rows, if there are as many updates.

        Raises:
          ConfigError: this machine can't run the experiment, or the checkpoint doesn't match it.
          AddressError, SecurityError: the server can't listen on the address.
          ActorFailed: actors keep failing right after their start.
          Diverged: updates are no longer finite.
          CannotUse, Failure: the configuration or the last checkpoint can't be written.
          RuntimeError: the run is not open.
        """
        if not self._directory:
            raise RuntimeError("the run is not open: use it as `with Run(...) as run`")
        if self._rows is not None:
            self._rows.close()
        self._rows = self._train(ctrl_c_asks() if stop is None else contextlib.nullcontext(stop))
        return self._rows

    def _train(self, asking: contextlib.AbstractContextManager[Stop]) -> Generator[dict[str, float], None, None]:
        started = time.monotonic()
        logs = os.path.join(self._directory, "actors")
        if callable(self.actors):
            actors = self.actors(logs)
        else:
            actors = local_actors(self.actors, self.experiment, logs, self.actor_arguments)
        with asking as stop, contextlib.ExitStack() as cleanup:
            stopping = StopIf(lambda: actors.failed is not None or stop.is_set())
            address = self.address or f"unix:{cleanup.enter_context(socket_directory())}/learner.sock"
            cleanup.callback(actors.stop)
            server = server_of(self.experiment, address, self.security)
            cleanup.callback(server.stop, grace=0.5)
            address = server.start()
            if self.actors != THREADS:
                actors.start(address)  # they build their environments while TensorFlow loads
            self._load_tensorflow()
            if self.actors == THREADS:  # their environments may import what is hidden from TensorFlow while it loads
                actors.start(address)
            if not self.meet(stopping):
                if actors.failed is not None:
                    raise actors.failed
                return
            gc.freeze()  # spares the collector the many objects of the imported modules
            cleanup.callback(gc.unfreeze)
            learner = self._new_learner(cleanup)
            frames = learner.counters.env_frames
            if learner.finished:
                more = "continue it, raise Experiment.total_frames"
                if self.experiment.optimizer.schedule != "constant":
                    more = "train on, start a new run with --init_from"
                finished = "the run in %s is finished (%d of %d frames); to %s"
                _log.warning(finished, self.logdir, frames, self.experiment.total_frames, more)
                server.is_over = True
                deadline = time.monotonic() + (_FAREWELL_SECONDS if self.actors == ELSEWHERE else 0)
                while time.monotonic() < deadline and not stopping.is_set():
                    time.sleep(0.1)
                return
            record_configuration(self.experiment, self._directory)
            is_over = False

            def leave(error: type[BaseException] | None, *_: object) -> None:
                """Close the learner; its actors wait for one that a signal or an error has ended."""
                left = error is GeneratorExit and learner.source.is_over(not self._has_failed)
                over = left or is_over
                if over:
                    try:
                        self.flush()
                    except (CannotUse, Failure) as failure:  # the next learner needs them
                        _log.error("actors will wait for another learner: %s", failure)
                        over = False
                learner.service.stop()  # first: it answers on the server's streams
                server.stop(grace=0.5, over=over)

            cleanup.push(leave)
            if evaluation := self.experiment.actors.num_eval_envs:
                training = self.experiment.actors.num_training_envs
                _log.info("environments: %d for training, the first ones, %d for evaluation", training, evaluation)
            server.service = learner.service  # actors may join, and get their first actions once training has compiled
            _log.info("serving actors at %s after %.1f s", address, time.monotonic() - started)
            yield from learner.train(stopping, self.on_update)
            if actors.failed is not None:
                raise actors.failed
            asked = stop.is_set() and not (isinstance(stop, StopFlag) and stop.exit_code)
            is_over = learner.source.is_over(learner.finished or asked)
            if not is_over and not stop.is_set():
                raise OthersGone("another learner host was interrupted: start all again, and they continue")
            frames, updates = learner.counters.env_frames, learner.counters.learner_updates
            _log.info("%d frames, %d updates; checkpoints and metrics in %s", frames, updates, self.logdir)

    def _load_tensorflow(self) -> None:
        _log.info("run in %s; loading TensorFlow", self.logdir)
        load_tensorflow()
        from seed_rl.system import devices

        if self.experiment.agent.for_device() != self.experiment.agent:
            _log.info("computing in %s: %s", *devices.native_dtype())
        if self.accelerator and not devices.accelerators(self.accelerator):
            kind, found = self.accelerator.upper(), ", ".join(device.name for device in devices.accelerators())
            raise ConfigError(f"TensorFlow finds no {kind} here, only {found or 'the CPU'}; see `seed_rl doctor`")

    def _new_learner(self, cleanup: contextlib.ExitStack) -> Learner:
        import tensorflow as tf

        from seed_rl.runs.assembly import Assembly

        assembly = functools.reduce(lambda assembly, change: change(assembly), self.changes, Assembly())
        with explaining(ConfigError, "the networks need more memory than is free", tf.errors.ResourceExhaustedError):
            parts = assembly.parts(self.experiment, self._directory, cleanup, index=self.index, learners=self.learners)
            return assembly.learner(parts)
