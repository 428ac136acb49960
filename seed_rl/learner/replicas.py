"""Training devices and inference devices: weights, batches and results on their way between them.

Each training device has a copy of the weights (a replica) and gets an equal part of every batch; gradients are
averaged, so that an update is the same on one device and on many. With several devices, inference devices have
copies of the weights, refreshed after every update: a compiled step can't read variables of another device.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Devices, Experiment
from seed_rl.learner.hosts import ALONE, HostLost, Hosts
from seed_rl.learner.split import BadDevices, Split, split
from seed_rl.types import Unroll

_log = logging.getLogger(__name__)

_ACCELERATORS = ("TPU", "GPU")
_BY_DEFAULT = ("GPU:0", "CPU:0")
_COMMUNICATION = tf.distribute.experimental.CommunicationOptions(
    timeout_seconds=600.0  # hosts begin together, but one may compile for longer than others
)


class Replicas:
    """The devices of a learner process, and its collective operations with other hosts."""

    def __init__(self, experiment: Experiment, hosts: Hosts = ALONE):
        """
        Args:
          experiment: names the devices, and sets the sizes to be divided among them.
          hosts: that train together; waits for the others.

        Raises:
          BadDevices: see `split`.
          HostLost: the others don't come.
        """
        batch_size = experiment.batch_size
        _make_logical_cpus(experiment.devices.logical_cpus)
        self.hosts = hosts
        if hosts.count > 1:
            self.strategy, self.split = _across(hosts, experiment.devices)
        else:
            available = _available()
            self.split = split(experiment, available)
            self.strategy = _strategy(self.split.training)
            self._log_split(available)
        self.count = self.strategy.num_replicas_in_sync
        """Training devices of all hosts."""
        if batch_size % (self.count * experiment.minibatches):
            raise BadDevices(
                f"Experiment.batch_size ({batch_size}) must be a multiple of the number of training devices on all "
                f"{hosts.count} hosts ({self.count}) times Experiment.minibatches ({experiment.minibatches})"
            )
        self.shared = self.count == 1 and self.split.training == self.split.inference
        """Whether one device does everything."""

    def _log_split(self, available: Sequence[str]) -> None:
        if len(available) == 1:
            return
        training, inference = self.split
        unused = [name for name in available if name not in training + inference]
        _log.info(
            "training on %s, acting on %s%s",
            ", ".join(training),
            ", ".join(inference),
            f"; {', '.join(unused)} would need another batch size or Devices" if unused else "",
        )

    @property
    def inference_devices(self) -> tuple[str, ...]:
        """The inference devices; "" for TensorFlow's default."""
        return ("",) if self.shared and self.split.inference[0] in _BY_DEFAULT else self.split.inference

    @property
    def is_first(self) -> bool:
        """Whether this host writes the checkpoints."""
        return self.hosts.index == 0

    @property
    def local_count(self) -> int:
        """Training devices of this host."""
        return self.count // self.hosts.count

    def scope(self) -> AbstractContextManager[Any]:
        """Variables made inside are on every training device."""
        if self.count > 1:
            return self.strategy.scope()
        return tf.device(self.inference_devices[0] if self.shared else self.split.training[0])

    def reader(self, store: UnrollStore, number: int = 0) -> Callable[[tf.Tensor], list[Unroll]]:
        """A function that copies batches from the store of an inference device to the training devices it feeds.

        Args:
          store: of the inference device.
          number: its index among the inference devices.

        Returns:
          A function of int32 [B] slots, with an unroll [L, B / n, ...] for each of n training devices.
        """
        if self.shared:
            return whole_reader(store)
        count = self.local_count // len(self.split.inference)
        devices = self.split.training[number * count : (number + 1) * count]

        @tf.function(autograph=False)
        def read(slots: tf.Tensor) -> list[Unroll]:
            parts = []
            for part, device in zip(tf.split(slots, count), devices, strict=True):
                unroll = store.read(part)
                with tf.device(device):  # to it, from the store's
                    parts.append(tf.nest.map_structure(tf.identity, unroll))
            return parts

        return read

    def joined(self, parts: Sequence[Unroll]) -> Unroll:
        """The argument of the update, from the parts of this host's training devices."""
        if self.count == 1:
            return parts[0]
        first = self.hosts.index * self.local_count
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group - first]
        )

    def acting_agents(self, agent: Agent, build: Callable[[], Agent]) -> tuple[list[Agent], Callable[[], None]]:
        """The acting agents, one per inference device, and a function that copies the learning agent's weights to them.

        Args:
          agent: the learning agent.
          build: builds another one like it.
        """
        if self.shared:
            return [agent], lambda: None
        copies = []
        for device in self.split.inference:
            with tf.device(device):
                copies.append(build())

        @tf.function(autograph=False)
        def refresh() -> None:
            for copy in copies:
                for there, here in zip(copy.variables, agent.variables, strict=True):
                    there.value.assign(_one_of(here.value))

        refresh()
        return copies, refresh

    def share_from_first(self, variables: Sequence[Any]) -> None:
        """Gives all hosts the variables of the first one, which has the checkpoint."""
        if self.hosts.count == 1:
            return
        with self.host_loss_as_error():
            values = self._of_first([tf.constant(variable.numpy()) for variable in variables])
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value.numpy())

    @tf.function(autograph=False)
    def _of_first(self, arrays: list[tf.Tensor]) -> list[tf.Tensor]:
        """The arrays that the first host gave; each host calls this with its own, of the same shapes."""

        def on_replica(arrays: list[tf.Tensor]) -> list[tf.Tensor]:
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(context.replica_id_in_sync_group, 0)
            # One by one: they may be of several dtypes.
            return [context.all_reduce("sum", tf.where(is_first, a, tf.zeros_like(a))) for a in arrays]

        sums = self.strategy.run(on_replica, (arrays,))
        return [self.strategy.experimental_local_results(total)[0] for total in sums]

    @contextlib.contextmanager
    def host_loss_as_error(self) -> Iterator[None]:
        """Turns the failure of a collective computation into a sentence.

        Raises:
          HostLost: another host is gone.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if self.hosts.count == 1:
                raise
            _log.debug("a collective computation has failed", exc_info=True)
            raise HostLost(
                f"another learner host is gone ({type(error).__name__}): start all {self.hosts.count} again, and they "
                "continue from the last checkpoint"
            ) from error


def whole_reader(store: UnrollStore) -> Callable[[tf.Tensor], list[Unroll]]:
    """`Replicas.reader` for a single device, which also holds the store."""
    return lambda slots: [store.read(slots)]


def abort_collectives() -> None:
    """Lets collective computations, present and future, fail at once: a host is gone. From any thread."""
    from tensorflow.python.eager import context  # as TensorFlow's own check of its peers does

    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, "another learner host is gone")


def _one_of(variable: Any) -> Any:
    """A variable's copy on the first device; all are equal."""
    return variable.values[0] if hasattr(variable, "values") else variable


def _across(hosts: Hosts, devices: Devices) -> tuple[tf.distribute.Strategy, Split]:
    """All devices of every host train; the first of each also acts."""
    if devices.training or devices.inference:
        raise BadDevices(
            "with several learner hosts every device trains: Devices.training and .inference must be empty"
        )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(hosts.addresses)}), task_type="worker", task_id=hosts.index
    )
    # Before anything else asks TensorFlow for its devices.
    try:
        with _own_sigterm():
            strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, _COMMUNICATION)
    except tf.errors.OpError as error:
        raise HostLost(f"not all of {', '.join(hosts.addresses)} came ({type(error).__name__})") from error
    training = tuple(name.rpartition("/device:")[2] for name in strategy.extended.worker_devices)
    return strategy, Split(training, training[:1])


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restores the handler of SIGTERM, which TensorFlow takes for a preemption notice; here it ends the run."""
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _make_logical_cpus(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    if count == len(tf.config.get_logical_device_configuration(cpu) or [cpu]):
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise BadDevices(f"Devices.logical_cpus = {count} comes too late: TensorFlow has devices already") from error


def _available() -> list[str]:
    if tf.config.list_physical_devices("TPU"):
        _tpu()
    for kind in (*_ACCELERATORS, "CPU"):
        found = tf.config.list_logical_devices(kind)
        if found:
            return [device.name.rpartition("/device:")[2] for device in found]
    raise BadDevices("TensorFlow has no devices")


def _strategy(training: Sequence[str]) -> tf.distribute.Strategy:
    if len(training) == 1:
        return tf.distribute.get_strategy()
    if training[0].startswith("TPU"):
        resolver, topology = _tpu()
        return tf.distribute.TPUStrategy(resolver, assignment(topology, training))
    return tf.distribute.MirroredStrategy([f"/device:{name}" for name in training])


@functools.cache
def _tpu() -> tuple[Any, tf.tpu.experimental.Topology]:
    """This host's TPU, initialised: before that its cores can't be used. Once, as a second time would clear them."""
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    return resolver, tf.tpu.experimental.initialize_tpu_system(resolver)


def assignment(topology: tf.tpu.experimental.Topology, cores: Sequence[str]) -> tf.tpu.experimental.DeviceAssignment:
    """Replica r on core r of the given cores of a host's TPU, such as `TPU:2`; the others stay free."""
    by_ordinal = {
        topology.tpu_device_ordinal_at_coordinates(coordinates): coordinates
        for coordinates in topology.device_coordinates[0]
    }
    chosen = [by_ordinal[int(core.rpartition(":")[2])] for core in cores]
    return tf.tpu.experimental.DeviceAssignment(topology, np.array(chosen)[:, None, :])
