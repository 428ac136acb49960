"""Communication between the learner hosts of a run, by TensorFlow's collectives.

`MultiWorkerMirroredStrategy` starts a server in each process and, on the first host, a service that follows the
heartbeats of all hosts; it is used for nothing else. Agents are built in the strategy of a host's own devices
(`learner.replicas`), so some of those devices are free to act. Sums over hosts are operations of the compiled update.
"""

import contextlib
import faulthandler
import itertools
import json
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from seed_rl import __version__
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.experiment.config_files import MAY_CHANGE
from seed_rl.extras.hosts.hosts import HostLost, Hosts
from seed_rl.learner.replicas import make_logical_cpus
from seed_rl.system.signals import OF_SCHEDULERS
from seed_rl.transport.address import AddressError

_log = logging.getLogger(__name__)

_GROUP_KEY = 1000  # strategies count from 1
_REGISTRATION_SECONDS = 60
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


class Link:
    """A host's end of the collectives. All hosts call the same methods in the same order; each call waits for all.

    Every method raises `HostLost` if another host is gone.
    """

    def __init__(self, hosts: Hosts):
        """The hosts, two or more, are connected already, see `connect`."""
        self.hosts = hosts
        self.env_frames = 0  # frames that host 0 had learned from when all agreed last, because schedules follow them
        self.weight_scale = 1.0  # largest `Batch.weight_scale` of the hosts when all agreed last
        self._left = False
        self._keys = itertools.count(1)
        self._own_keys: dict[tuple[Any, ...], int] = {}

    def mean(self, nest: Any) -> Any:
        """Average a nest of float32 tensors over hosts, in a function that is being traced."""
        return tf.nest.map_structure(lambda total: total / self.hosts.count, self._over_hosts(nest, "Add"))

    def maximum(self, nest: Any) -> Any:
        """Return the maxima over hosts of a nest of float32 tensors, in a function that is being traced."""
        return self._over_hosts(nest, "Max")

    def _over_hosts(self, nest: Any, merge: str) -> Any:
        tensors = tf.nest.flatten(nest)
        if not tensors:
            return nest
        joined = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
        sizes = [tensor.shape.num_elements() for tensor in tensors]
        parts = tf.split(self._reduce(joined, next(self._keys), merge), sizes)
        shaped = [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
        return tf.nest.pack_sequence_as(nest, shaped)

    def _reduce(self, tensor: tf.Tensor, key: int, merge: str = "Add") -> tf.Tensor:
        group = {"group_size": self.hosts.count, "group_key": _GROUP_KEY, "instance_key": key, "ordering_token": []}
        with tf.device(f"/job:worker/task:{self.hosts.index}/device:CPU:0"):
            return tf.raw_ops.CollectiveReduceV2(input=tensor, **group, merge_op=merge, final_op="Id")

    def sum(self, array: np.ndarray) -> np.ndarray:
        """Sum the arrays of all hosts, of int32, int64 or floats."""
        kind = (array.shape, array.dtype)
        if kind not in self._own_keys:
            self._own_keys[kind] = next(self._keys)
        with self.explaining():
            return self._reduce(tf.constant(array), self._own_keys[kind]).numpy()

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Turn TensorFlow's errors about lost hosts into `HostLost`."""
        try:
            yield
        except _LOST as error:
            if not re.search(r"[Cc]ollective|/tensorflow\.\w+Service/", error.message):
                raise
            _log.debug("%s", " ".join(error.message.split()))
            # Without a number it is the heartbeat to the service on host 0 that failed.
            others = {int(task) for task in re.findall(r"task:(\d+)", error.message)} - {self.hosts.index}
            name = self.hosts.name(min(others, default=0)) if others or self.hosts.index else "another learner host"
            remedy = f"start all {self.hosts.count} again, and they continue from the last checkpoint"
            raise HostLost(f"{name} is gone: {remedy}") from None

    def gather(self, own: Mapping[str, Any]) -> list[Any]:
        """Return the messages of all hosts, JSON values by name, in the order of hosts."""
        text = np.frombuffer(json.dumps(own).encode(), np.uint8)
        count, index = self.hosts.count, self.hosts.index
        lengths = self.sum(np.eye(count, dtype=np.int32)[index] * len(text))
        texts = np.zeros((count, lengths.max()), np.int32)
        texts[index, : len(text)] = text
        texts = self.sum(texts).astype(np.uint8)
        return [json.loads(row[:length].tobytes()) for row, length in zip(texts, lengths, strict=True)]

    def compare(self, own: Mapping[str, Any]) -> None:
        """Raise a ConfigError unless all hosts have the same settings, JSON values by name."""
        first, *others = self.gather(own)
        for index, other in enumerate(others, 1):
            names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
            # Names that only one host has are explained by a shared one that differs, such as `agent.kind`.
            if names := [name for name in names if name in first and name in other] or names:
                differ = (f"{n} is {first.get(n)!r} on host 0 and {other.get(n)!r} on host {index}" for n in names)
                raise ConfigError(f"learner hosts must be started with the same settings: {'; '.join(differ)}")

    def agree(self, leave: bool, ready: bool, env_frames: int, weight_scale: float = 0.0) -> tuple[bool, bool]:
        """Decide on the next step, given whether this host is about to end, whether it has a batch, and its progress.

        `weight_scale` is that of the batch, if it has one.

        Return whether a host is about to end (this one may, even if another is gone), and whether all update.
        """
        try:
            scales = np.zeros(self.hosts.count)
            scales[self.hosts.index] = weight_scale
            own = [leave, ready, 0 if self.hosts.index else env_frames, *scales.view(np.int64)]  # sums keep the bits
            leaving, having, self.env_frames, *bits = self.sum(np.array(own, np.int64)).tolist()
            self.weight_scale = float(np.array(bits).view(np.float64).max())
        except HostLost:
            if not leave:
                raise
            self._left = True
            return True, False
        self._left = bool(leaving)
        return self._left, not leaving and having == self.hosts.count

    def leave(self) -> None:
        """Tell the others that this host ends, unless all have agreed to leave."""
        if not self._left:
            self.agree(leave=True, ready=False, env_frames=0)

    def of_first(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the arrays of host 0; every host passes its own, of the same shapes and dtypes."""
        joined = b"".join(array.tobytes() for array in arrays)
        words = np.frombuffer(joined + bytes(-len(joined) % 4), np.int32)
        received = self.sum(words if self.hosts.index == 0 else np.zeros_like(words)).tobytes()
        parts, start = [], 0
        for array in arrays:
            parts.append(np.frombuffer(received, array.dtype, array.size, start).reshape(array.shape))
            start += array.nbytes
        return parts


def connect(hosts: Hosts, experiment: Experiment) -> Link:
    """Connect hosts that have met, before TensorFlow makes its devices; raise ConfigError if their settings differ."""
    make_logical_cpus(experiment.devices.logical_cpus)  # before the server, which initialises the devices
    _start_server(hosts)
    link = Link(hosts)
    link.compare(settings_in_common(experiment))
    return link


def settings_in_common(experiment: Experiment) -> dict[str, Any]:
    """Return the settings and version that all hosts of a run must share, as JSON values by dotted name."""
    settings = {name: value for name, value in experiment.to_json().items() if not name.startswith(MAY_CHANGE)}
    return {"the version of seed_rl": __version__, **settings}


def _start_server(hosts: Hosts) -> None:
    own = {"task_type": "worker", "task_id": hosts.index, "rpc_layer": "grpc"}
    cluster = tf.train.ClusterSpec({"worker": list(hosts.addresses)})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, **own)
    _log.info("all learner hosts answer; connecting them, for at most %d s", _REGISTRATION_SECONDS)
    try:
        with _ended_if_stuck():
            tf.distribute.MultiWorkerMirroredStrategy(resolver)  # its server stays
    except tf.errors.OpError as error:
        raise HostLost(f"the learner hosts can't be connected: {error.message.splitlines()[0]}") from error
    except RuntimeError as error:
        raise ConfigError("learner hosts must be connected before their processes use TensorFlow") from error
    if not hosts.trusted_network:
        _keep_to_this_machine(hosts.parsed[hosts.index].port)


@contextlib.contextmanager
def _ended_if_stuck() -> Iterator[None]:
    """End the process on signals, and after a time limit: TensorFlow waits without letting Python run."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, *OF_SCHEDULERS) if is_main else ()
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(_REGISTRATION_SECONDS, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            for number, handler in before.items():
                signal.signal(number, handler)


def _keep_to_this_machine(port: int) -> None:
    """Close the server's port, which is open at all addresses, to other machines."""
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            with socket.socket(fileno=os.dup(connection.fd)) as listener:
                try:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
                except OSError as error:
                    reason = f"port {port} can't be closed to other machines: {error.strerror}"
                    raise AddressError(f"{reason}; --trusted_network says that none can reach it") from error
