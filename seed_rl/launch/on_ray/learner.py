"""A learner on another node of the cluster than the process that the user looks at."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import ray

from seed_rl.files import Outage
from seed_rl.launch.on_ray.cluster import NoCluster, this_node
from seed_rl.launch.on_ray.mirror import Piece, Watched, apply
from seed_rl.launch.on_ray.plan import Plan
from seed_rl.launch.run_directory import run_directory
from seed_rl.object_store import is_url

if TYPE_CHECKING:
    from seed_rl.learner.learner import Stop

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_MIRROR_SECONDS = 2.0
_OWN_TO_EACH = ("learner.log", "lock")  # what the learner logs goes into the log of the process that is looked at


class RayLearner:
    """Runs in a Ray actor: a run in an object store, or in a directory of its node that is there as long as the run."""

    def __init__(self, url: str):
        """
        Args:
          url: the log directory; "": one of its own, whose content comes and goes in pieces.
        """
        self._directory = tempfile.mkdtemp(prefix="seed_rl-")
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
        self._cleanup = contextlib.ExitStack()
        self._not_written = Outage("what the learner writes", "the rest goes on", _log)

    def __enter__(self) -> RemoteRun:
        """Takes the directory; one in an object store is taken by the learner, in `train`.

        Raises:
          ConfigError, CannotUse: as `Run` does.
          NoCluster: the cluster has no such resource.
        """
        if not ray.cluster_resources().get(self._resource):
            raise NoCluster(f"no node of the cluster has the resource {self._resource!r} that the learner is to have")
        if not self._url:
            self._cleanup.enter_context(run_directory(self.logdir, self.experiment, self.logdir))
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """As `Run.train`; with an object store it raises what `Run` does when it is entered and left as well."""
        learner = ray.remote(RayLearner).options(max_concurrency=2, **_needs(self._resource)).remote(self._url)
        try:
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
            raise NoCluster(
                f"the learner's process or node is lost; started again, the run continues from the last checkpoint in "
                f"{self.logdir}"
            ) from error
        finally:
            ray.kill(learner)

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


def _needs(resource: str) -> dict[str, Any]:
    if resource == "GPU":
        return {"num_cpus": 0, "num_gpus": 1}
    return {"num_cpus": 0, "resources": {resource: 0.001 if resource.startswith("node:") else 1}}
