"""A learner on another node of the cluster than the process that the user started."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import pathlib
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import ray

from seed_rl.experiment import Devices
from seed_rl.files import Outage, locked
from seed_rl.launch.mirror import Mirror
from seed_rl.launch.on_ray.cluster import (
    Mailbox,
    MailboxHandler,
    NoCluster,
    actor_here,
    not_started,
    this_node,
    wait_for_delivery,
)
from seed_rl.launch.on_ray.directory import Piece, RemoteStore
from seed_rl.launch.run_directory import run_directory
from seed_rl.object_store import files_in, is_url

if TYPE_CHECKING:
    from seed_rl.launch.on_ray.run import RunSpec
    from seed_rl.learner.ending import Stop

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_MIRROR_SECONDS = 2.0
_WAITING_SECONDS = 5.0  # until the log says that the learner has no place yet
_PRIVATE = ("learner.log", "lock")  # the learner's log records go into the log of the process that the user started


class RayLearner:
    """A Ray actor that runs a learner."""

    def __init__(self):
        self._stop = threading.Event()

    def stop(self) -> None:
        """Makes `train` end soon."""
        self._stop.set()

    def train(self, spec: RunSpec, logdir: str, files: Mapping[str, Any] | None, mailbox: Any) -> None:
        """Trains; sends rows of metrics, log records and pieces of files to a mailbox.

        Args:
          spec: of the run.
          logdir: of the run.
          files: Ray objects with the content of each file in it, by name; None if it is in an object store.
          mailbox: handle of a `Mailbox`.

        Raises:
          What `Run` raises.
        """
        root = logging.getLogger()
        root.addHandler(MailboxHandler(mailbox))
        root.setLevel(spec.log_level)
        _log.info("the learner runs on %s (%s)", this_node()[1], this_node()[0][:8])
        try:
            with contextlib.ExitStack() as cleanup:
                place = logdir
                if files is not None:
                    place = cleanup.enter_context(_own_directory())
                    store = RemoteStore(
                        list(files),
                        lambda name: ray.get(files[name]),
                        lambda piece: ray.get(mailbox.put.remote(piece)),
                    )
                    mirror = Mirror(logdir, store, place, _PRIVATE)
                    mirror.pull()
                    cleanup.enter_context(mirror.kept(_MIRROR_SECONDS, "the end of the run is lost"))
                with spec.run(place) as run:
                    for row in run.train(self._stop):
                        mailbox.put.remote(row)
        finally:
            wait_for_delivery(mailbox)


@contextlib.contextmanager
def _own_directory() -> Iterator[str]:
    """A directory of this node that is removed in the end, at the latest by the next learner here.

    Ray ends a learner whose driver was killed without notice: its directory is left, but unlocked.
    """
    prefix = os.path.join(tempfile.gettempdir(), "seed_rl-learner-")
    for lock in glob.glob(f"{prefix}*.lock"):
        with contextlib.suppress(OSError), locked(lock):  # else it is in use, or another user's
            shutil.rmtree(lock.removesuffix(".lock"), ignore_errors=True)
            os.remove(lock)
    lock = f"{prefix}{os.getpid()}-{time.time_ns()}.lock"
    with locked(lock):
        directory = lock.removesuffix(".lock")
        os.makedirs(directory)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            os.remove(lock)


class RemoteRun:
    """Like `Run`, with the learner where a resource is.

    A log directory on this machine is two seconds behind the learner. One in an object store is used by the learner
    alone: this process neither reads nor writes it.
    """

    def __init__(self, spec: RunSpec, logdir: str, resource: str):
        """
        Args:
          spec: of the run.
          logdir: directory of the run, on this machine or in an object store; made if need be.
          resource: Ray's name of it.
        """
        self.experiment = spec.experiment
        self.logdir = logdir
        self._spec = spec
        self._resource = resource
        self._amount = _amount(resource, spec.experiment.devices)
        self._cleanup = contextlib.ExitStack()
        self._outage = Outage(f"files in {logdir}", "training goes on", _log)

    def __enter__(self) -> RemoteRun:
        """Opens the log directory; one in an object store is opened by the learner, in `train`.

        Raises:
          ConfigError, CannotUse: as `Run` does.
          NoCluster: the cluster has no such resource.
        """
        name, amount = self._resource, self._amount
        if not any(node["Resources"].get(name, 0) >= amount for node in ray.nodes() if node["Alive"]):
            wanted = f"{amount} of the resource" if amount > 1 else "the resource"
            raise NoCluster(f"no node of the cluster has {wanted} {name!r} that the learner is to have")
        if not is_url(self.logdir):
            self._cleanup.enter_context(run_directory(self.logdir, self.experiment, self.logdir))
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """As `Run.train`; with an object store it also raises the errors of opening and closing a `Run`."""
        needs = {"num_gpus": self._amount} if self._resource == "GPU" else {"resources": {self._resource: self._amount}}
        learner = ray.remote(RayLearner).options(max_concurrency=2, num_cpus=0, **needs).remote()
        try:
            if not self._placed(learner, stop):
                return
            mailbox = actor_here(Mailbox)
            ended = learner.train.remote(self._spec, self.logdir, self._files(), mailbox)
            try:
                while not ray.wait([ended], timeout=_POLL_SECONDS)[0]:
                    if stop is not None and stop.is_set():
                        learner.stop.remote()
                    yield from self._rows(mailbox)
            finally:
                learner.stop.remote()
                ray.wait([ended])  # writes its last checkpoint
                last = self._rows(mailbox)
            yield from last
            ray.get(ended)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ImportError):  # of the agent or the environments, when the spec arrives
                raise NoCluster(f"the learner's node lacks a module of the experiment: {error.cause}") from error
            raise error.cause from None
        except ray.exceptions.RayActorError as error:
            why = not_started(error)
            if why:
                raise NoCluster(f"the learner can't start: {why}") from error
            raise NoCluster(
                f"the learner's process or node is lost; started again, the run continues from the last checkpoint in "
                f"{self.logdir}"
            ) from error
        finally:
            ray.kill(learner)

    def _placed(self, learner: Any, stop: Stop | None) -> bool:
        """Waits for the learner's process; False if `stop` is set first."""
        ready, began, logged = learner.__ray_ready__.remote(), time.monotonic(), False
        while not ray.wait([ready], timeout=_POLL_SECONDS)[0]:
            if stop is not None and stop.is_set():
                return False
            if not logged and time.monotonic() - began > _WAITING_SECONDS:
                _log.warning("the learner waits for a node with %g %s free", self._amount, self._resource)
                logged = True
        ray.get(ready)
        return True

    def _files(self) -> dict[str, Any] | None:
        if is_url(self.logdir):
            return None
        names = [name for name in files_in(self.logdir) if name not in _PRIVATE]
        return {name: ray.put(pathlib.Path(self.logdir, name).read_bytes()) for name in names}

    def _rows(self, mailbox: Any) -> list[dict[str, float]]:
        """The rows of metrics that have arrived; files and the log are written here."""
        rows = []
        for event in ray.get(mailbox.take.remote()):
            if isinstance(event, logging.LogRecord):
                logging.getLogger(event.name).handle(event)
            elif isinstance(event, Piece):
                with self._outage.tolerated():
                    event.apply(self.logdir)
            else:
                rows.append(event)
        return rows


def _amount(resource: str, devices: Devices) -> float:
    """How much of a resource the learner takes: as many accelerators as its `Devices` name, otherwise one."""
    if resource.startswith("node:"):  # each node has one of these, which says where it is
        return 0.001
    return max(1, len({name for name in (*devices.inference, *devices.training) if name.startswith(f"{resource}:")}))
