"""A learner on another node of the cluster than the process that the user started."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import ray

from seed_rl.experiment import Devices
from seed_rl.runs.ray.cluster import Events, NoCluster, not_started, streamed, this_node
from seed_rl.runs.run_directory import run_directory
from seed_rl.system.files import PARTIAL, Outage
from seed_rl.system.object_store import Store, files_in, is_url

if TYPE_CHECKING:
    from seed_rl.learner.ending import Stop
    from seed_rl.runs.ray.run import RunSpec

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_WAITING_SECONDS = 5.0  # until the log says that the learner has no place yet
_PIECE_BYTES = 8 << 20
_LEARNER_LOG = "learner.log"  # written where the user's process is, from the log records that arrive there


class Piece(NamedTuple):
    """An event: a piece of a changed file, or a file was removed."""

    name: str
    offset: int = 0
    data: bytes | None = None
    """None: the file is removed."""
    last: bool = False

    def apply(self, directory: str) -> None:
        """Makes the change in a directory, where a file changes with its last piece.

        Raises:
          OSError: it can't be written, or an earlier piece could not be.
        """
        path = os.path.join(directory, self.name)
        if self.data is None:
            os.remove(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}{PARTIAL}", "r+b" if self.offset else "wb") as file:
            if file.seek(0, os.SEEK_END) != self.offset:
                raise OSError(f"{self.name} lacks pieces that could not be written before")
            file.write(self.data)
        if self.last:
            os.replace(f"{path}{PARTIAL}", path)


@dataclasses.dataclass(frozen=True)
class UsersDirectory(Store):
    """The log directory on the node of the process that the user started, for the learner's node."""

    content: Mapping[str, Any]
    """Ray objects with the content of each file at the start, by name."""
    events: Events
    """Stream to that process, for pieces."""

    def files(self) -> list[str]:
        """Names of the files at the start."""
        return list(self.content)

    def fetch(self, name: str, path: str) -> None:
        """Writes one of them to a path on this node."""
        pathlib.Path(path).write_bytes(ray.get(self.content[name]))

    def send(self, file: IO[bytes], name: str) -> None:
        """Sends the content of an open file, as large as it is now; one piece at a time is in memory."""
        if name == _LEARNER_LOG:
            return
        size, offset, last = os.fstat(file.fileno()).st_size, 0, False
        while not last:
            data = file.read(min(_PIECE_BYTES, size - offset))
            last = not data or offset + len(data) == size
            self.events.put(Piece(name, offset, data, last))
            self.events.join()
            offset += len(data)

    def remove(self, name: str) -> None:
        """Sends that a file was removed."""
        self.events.put(Piece(name))


class RayLearner:
    """A Ray actor that runs a learner."""

    def __init__(self):
        self._stop = threading.Event()

    def stop(self) -> None:
        """Makes `train` end soon."""
        self._stop.set()

    def train(self, spec: RunSpec, logdir: str, files: Mapping[str, Any] | None) -> Iterator[Any]:
        """Trains; yields as `streamed`, with rows of metrics and pieces of files.

        Args:
          spec: of the run.
          logdir: of the run.
          files: Ray objects with the content of each file in it, by name; None if it is in an object store.

        Raises:
          What `Run` raises.
        """

        def work(events: Events) -> None:
            store = None if files is None else UsersDirectory(files, events)
            with spec.run(logdir, store) as run:
                for row in run.train(self._stop):
                    events.put(row)

        yield from streamed(work, spec.log_level)


@dataclasses.dataclass(eq=False)
class RemoteRun:
    """Like `Run`, with the learner where a resource is.

    A log directory on this machine is at most half a minute behind the learner. One in an object store is used by the
    learner alone: this process neither reads nor writes it.
    """

    spec: RunSpec
    logdir: str
    """Directory of the run, on this machine or in an object store; made if need be."""
    resource: str
    """Ray's name of it."""

    def __post_init__(self) -> None:
        self.experiment = self.spec.experiment
        self._amount = _amount(self.resource, self.experiment.devices)
        self._cleanup = contextlib.ExitStack()
        self._outage = Outage(f"files in {self.logdir}", "training goes on", _log)

    def __enter__(self) -> RemoteRun:
        """Opens the log directory; one in an object store is opened by the learner, in `train`.

        Raises:
          ConfigError, CannotUse: as `Run` does.
          NoCluster: the cluster has no such resource.
        """
        name, amount = self.resource, self._amount
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
        needs = {"num_gpus": self._amount} if self.resource == "GPU" else {"resources": {self.resource: self._amount}}
        learner: Any = ray.remote(RayLearner).options(max_concurrency=2, num_cpus=0, **needs).remote()
        try:
            stream = learner.train.options(num_returns="streaming").remote(self.spec, *self._directory())
            if not self._placed(stream, stop):
                return
            _log.info("the learner runs on %s", ray.get(next(stream)))
            try:
                yield from self._rows(stream, learner, stop)
            except GeneratorExit:  # the caller left the loop
                learner.stop.remote()
                for _ in self._rows(stream, learner, None):  # until its last checkpoint is here
                    pass
                raise
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

    def _directory(self) -> tuple[str, dict[str, Any] | None]:
        """The name of the log directory for the learner, and the files in it unless the learner reads them itself."""
        if is_url(self.logdir):
            return self.logdir, None
        names = [name for name in files_in(self.logdir) if name not in (_LEARNER_LOG, "lock")]
        files = {name: ray.put(pathlib.Path(self.logdir, name).read_bytes()) for name in names}
        return f"{this_node()[0]}:{os.path.abspath(self.logdir)}", files

    def _placed(self, stream: Any, stop: Stop | None) -> bool:
        """Waits for the learner's process; False if `stop` is set first."""
        began, logged = time.monotonic(), False
        while not ray.wait([stream], timeout=_POLL_SECONDS)[0]:
            if stop is not None and stop.is_set():
                return False
            if not logged and time.monotonic() - began > _WAITING_SECONDS:
                _log.warning("the learner waits for a node with %g %s free", self._amount, self.resource)
                logged = True
        return True

    def _rows(self, stream: Any, learner: Any, stop: Stop | None) -> Iterator[dict[str, float]]:
        """The rows of metrics as they arrive; files and the log are written here."""
        while True:
            if stop is not None and stop.is_set():
                learner.stop.remote()
            if not ray.wait([stream], timeout=_POLL_SECONDS)[0]:
                continue
            try:
                event = ray.get(next(stream))
            except StopIteration:
                return
            if isinstance(event, logging.LogRecord):
                logging.getLogger(event.name).handle(event)
            elif isinstance(event, Piece):
                with self._outage.tolerated():
                    event.apply(self.logdir)
            else:
                yield event


def _amount(resource: str, devices: Devices) -> float:
    """How much of a resource the learner takes: as many accelerators as its `Devices` name, otherwise one."""
    if resource.startswith("node:"):  # each node has one of these, which says where it is
        return 0.001
    return max(1, len({name for name in (*devices.inference, *devices.training) if name.startswith(f"{resource}:")}))
