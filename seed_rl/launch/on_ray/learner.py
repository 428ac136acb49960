"""A learner on another node of the cluster than the process that the user looks at."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import logging
import logging.handlers
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import ray

from seed_rl.experiment import Devices
from seed_rl.files import Outage
from seed_rl.launch.on_ray.cluster import NoCluster, not_started, this_node
from seed_rl.launch.on_ray.mirror import Piece, Watched, apply
from seed_rl.launch.on_ray.plan import Plan
from seed_rl.launch.run_directory import run_directory
from seed_rl.object_store import is_url

if TYPE_CHECKING:
    from seed_rl.learner.ending import Stop

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_MIRROR_SECONDS = 2.0
_WAITING_SECONDS = 5.0  # until it is said that the learner has no place yet
_NEW_SECONDS = 60.0
_OWN_TO_EACH = ("learner.log", "lock")  # what the learner logs goes into the log of the process that is looked at


class RayLearner:
    """Runs in a Ray actor: a run in an object store, or in a directory of its node that is there as long as the run."""

    def __init__(self, url: str):
        """
        Args:
          url: the log directory; "": one of its own, whose content comes and goes in pieces.
        """
        self._directory, self._lock = _own_directory()
        self._logdir = url or self._directory
        self._stop = threading.Event()

    def take(self, piece: Piece) -> None:
        """Gets a part of the log directory that the run is to continue in."""
        apply(self._directory, piece)

    def stop(self) -> None:
        """Makes `train` end soon."""
        self._stop.set()

    def train(self, plan: Plan) -> Iterator[dict[str, float] | logging.LogRecord | Piece]:
        """Trains; gives rows of metrics, what is logged and what is written, as they come.

        Raises:
          What `Run` raises.
        """
        said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        handler = logging.handlers.QueueHandler(said)
        handler.addFilter(lambda record: not record.name.startswith("ray"))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(plan.log_level)
        watched = Watched(self._directory, _OWN_TO_EACH)
        watched.skip()
        failures: list[BaseException] = []
        training = threading.Thread(target=self._run, args=(plan, said, failures), name="learner")
        training.start()
        mirrored_at = time.monotonic()
        try:
            while training.is_alive() or not said.empty():
                with contextlib.suppress(queue.Empty):
                    yield said.get(timeout=_POLL_SECONDS)
                if time.monotonic() - mirrored_at > _MIRROR_SECONDS:
                    yield from watched.changes()
                    mirrored_at = time.monotonic()
            yield from watched.changes()
            for failure in failures:
                raise failure
        finally:
            self._stop.set()
            training.join()
            root.removeHandler(handler)
            shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, plan: Plan, said: queue.SimpleQueue[Any], failures: list[BaseException]) -> None:
        _log.info("the learner runs on %s (%s)", this_node()[1], this_node()[0][:8])
        try:
            with plan.run(self._logdir) as run:
                for row in run.train(self._stop):
                    said.put(row)
        except BaseException as error:  # raised again by `train`
            failures.append(error)


def _own_directory() -> tuple[str, int]:
    """A directory of this node, and the descriptor that shows as long as this process lives that it is in use.

    Ray ends a learner whose driver was killed without a word, so that directories of earlier ones may be left: they go.
    """
    prefix = os.path.join(tempfile.gettempdir(), "seed_rl-learner-")
    for path in glob.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # in use, another user's, or just removed by another learner
            if time.time() - os.stat(path).st_mtime > _NEW_SECONDS:  # else it may not be locked yet
                os.close(_locked(path))
                shutil.rmtree(path)
    directory = tempfile.mkdtemp(prefix=prefix)
    return directory, _locked(directory)


def _locked(directory: str) -> int:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class RemoteRun:
    """Like `Run`, with the learner where a resource is.

    A log directory on this machine is two seconds behind the learner. One in an object store is used by the learner
    alone: here nothing is needed to reach it, and nothing is written.
    """

    def __init__(self, plan: Plan, logdir: str, resource: str):
        """
        Args:
          plan: what to train.
          logdir: directory of the run, on this machine or in an object store; made if need be.
          resource: Ray's name of it.
        """
        self.experiment = plan.experiment
        self.logdir = logdir
        self._url = logdir if is_url(logdir) else ""
        self._plan = plan
        self._resource = resource
        self._amount = _amount(resource, plan.experiment.devices)
        self._cleanup = contextlib.ExitStack()
        self._not_written = Outage("what the learner writes", "the rest goes on", _log)

    def __enter__(self) -> RemoteRun:
        """Takes the directory; one in an object store is taken by the learner, in `train`.

        Raises:
          ConfigError, CannotUse: as `Run` does.
          NoCluster: the cluster has no such resource.
        """
        name, amount = self._resource, self._amount
        if not any(node["Resources"].get(name, 0) >= amount for node in ray.nodes() if node["Alive"]):
            wanted = f"{amount} of the resource" if amount > 1 else "the resource"
            raise NoCluster(f"no node of the cluster has {wanted} {name!r} that the learner is to have")
        if not self._url:
            self._cleanup.enter_context(run_directory(self.logdir, self.experiment, self.logdir))
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """As `Run.train`; with an object store it raises what `Run` does when it is entered and left as well."""
        needs = {"num_gpus": self._amount} if self._resource == "GPU" else {"resources": {self._resource: self._amount}}
        learner = ray.remote(RayLearner).options(max_concurrency=2, num_cpus=0, **needs).remote(self._url)
        try:
            if not self._placed(learner, stop):
                return
            if not self._url:
                for piece in Watched(self.logdir, _OWN_TO_EACH).changes():
                    ray.get(learner.take.remote(piece))
            events = learner.train.options(num_returns="streaming").remote(self._plan)
            try:
                yield from self._rows(events, learner, stop)
            finally:
                learner.stop.remote()
                for _ in self._rows(events, learner, None):  # its last checkpoint is still to come
                    pass
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ImportError):  # of the agent or the environments, when the plan arrives
                raise NoCluster(f"the learner's node lacks what the experiment needs: {error.cause}") from error
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
        """Waits for the learner's process; whether it is there, as the user may lose patience before."""
        ready, began, told = learner.__ray_ready__.remote(), time.monotonic(), False
        while not ray.wait([ready], timeout=_POLL_SECONDS)[0]:
            if stop is not None and stop.is_set():
                return False
            if not told and time.monotonic() - began > _WAITING_SECONDS:
                _log.warning("the learner waits for a node with %g %s free", self._amount, self._resource)
                told = True
        ray.get(ready)
        return True

    def _rows(self, events: Any, learner: Any, stop: Stop | None) -> Iterator[dict[str, float]]:
        """Puts everything but rows where it belongs."""
        asked = False
        while True:
            if stop is not None and stop.is_set() and not asked:
                asked = True
                learner.stop.remote()
            if not ray.wait([events], timeout=_POLL_SECONDS)[0]:
                continue
            try:
                event = ray.get(next(events))
            except StopIteration:
                return
            if isinstance(event, Piece):
                with self._not_written.tolerated():
                    apply(self.logdir, event)
            elif isinstance(event, logging.LogRecord):
                logging.getLogger(event.name).handle(event)
            else:
                yield event


def _amount(resource: str, devices: Devices) -> float:
    """How much of a resource the learner takes: as many accelerators as its `Devices` name, otherwise one."""
    if resource.startswith("node:"):  # each node has one of these, which says where it is
        return 0.001
    return max(1, len({name for name in (*devices.inference, *devices.training) if name.startswith(f"{resource}:")}))
