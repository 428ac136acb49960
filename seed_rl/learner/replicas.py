"""Which devices train and which one acts; weights, batches and results on their way between them.

Each device that trains has a copy of the weights (a replica) and gets an equal part of every batch; gradients are
averaged, so that an update is the same on one device and on many. Acting is on a device of its own then, with a copy of
the weights that is refreshed after every update: a compiled step can't read what another device holds.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Devices
from seed_rl.learner.hosts import ALONE, HostLost, Hosts
from seed_rl.types import Unroll

_log = logging.getLogger(__name__)

_ACCELERATORS = ("TPU", "GPU")
_COMMUNICATION = tf.distribute.experimental.CommunicationOptions(
    timeout_seconds=600.0  # a host may wait for its actors; one that is gone is noticed by its heartbeats
)


class BadDevices(ValueError):
    """Devices that are not there, or don't fit the batch; one sentence."""


class Split(NamedTuple):
    """Devices by TensorFlow's names, such as `GPU:0`."""

    training: tuple[str, ...]
    """At least one."""
    inference: str
    """Where acting is, and where unrolls are kept."""


def split(devices: Devices, available: Sequence[str], batch_size: int) -> Split:
    """Who does what.

    By default one device does everything. Of several accelerators the first acts and as many of the others train as
    divide the batch evenly.

    Args:
      devices: what is asked for.
      available: accelerators, or what there is without one; not empty.
      batch_size: unrolls per update.

    Raises:
      BadDevices: a device isn't there, or the batch can't be divided evenly.
    """
    for name in (*devices.training, *filter(None, [devices.inference])):
        if name not in available:
            raise BadDevices(f"there is no device {name!r}: there are {', '.join(available)}")
    if len(set(devices.training)) < len(devices.training):
        raise BadDevices(f"Devices.training names a device twice: {', '.join(devices.training)}")
    if devices.training:
        training = devices.training
        idle = [name for name in available if name not in training]
        inference = devices.inference or (idle[0] if idle and len(training) > 1 else training[0])
    else:
        inference = devices.inference or available[0]
        others = [name for name in available if name != inference and not name.startswith("CPU")]
        count = next((n for n in range(len(others), 0, -1) if batch_size % n == 0), 0)
        training = tuple(others[:count]) or (inference,)
    if batch_size % len(training):
        raise BadDevices(
            f"Experiment.batch_size ({batch_size}) must be a multiple of the number of devices that train "
            f"({len(training)}: {', '.join(training)})"
        )
    return Split(training, inference)


class Replicas:
    """The devices of a learner process, and what it shares with others that train the same model."""

    def __init__(self, devices: Devices, batch_size: int, hosts: Hosts = ALONE):
        """
        Args:
          devices: what is asked for.
          batch_size: unrolls per update, of all hosts together.
          hosts: that train together; waits for the others.

        Raises:
          BadDevices: see `split`.
          HostLost: the others don't come.
        """
        _make_logical_cpus(devices.logical_cpus)
        self.hosts = hosts
        if hosts.count > 1:
            self.strategy, self.split = _across(hosts, devices)
        else:
            self.split = split(devices, _available(), batch_size)
            self.strategy = _strategy(self.split.training)
        self.count = self.strategy.num_replicas_in_sync
        """Devices that train, of all hosts."""
        if batch_size % self.count:
            raise BadDevices(
                f"Experiment.batch_size ({batch_size}) must be a multiple of the number of devices that train on all "
                f"{hosts.count} hosts ({self.count})"
            )
        self.batch_size = batch_size // hosts.count
        """Unrolls of each update that come from this host's actors."""
        self.shared = self.count == 1 and self.split.training == (self.split.inference,)
        """Whether one device does everything."""
        if not self.shared:
            training, inference = self.split
            _log.info("training on %s, acting on %s", ", ".join(training), inference)

    @property
    def acting_device(self) -> str:
        """Where acting is; "" if there is nothing to choose."""
        return "" if self.shared else self.split.inference

    @property
    def is_first(self) -> bool:
        """Whether this is the host that writes checkpoints."""
        return self.hosts.index == 0

    @property
    def local_count(self) -> int:
        """Devices of this host that train."""
        return self.count // self.hosts.count

    def scope(self) -> AbstractContextManager[Any]:
        """Variables that are made inside are on every device that trains."""
        if self.count > 1 or self.shared:
            return self.strategy.scope()
        return tf.device(self.split.training[0])

    def reader(self, store: UnrollStore) -> Callable[[tf.Tensor], Unroll]:
        """What reads a batch, int32 [B] slots, out of a store: an equal part [L, ...] onto each device of this host."""
        if self.shared:
            return store.read
        strategy, count, device = self.strategy, self.local_count, self.split.training[0]

        @tf.function
        def read(slots: tf.Tensor) -> Unroll:
            def own_part() -> Unroll:
                unroll = store.read(tf.reshape(slots, [count, -1])[_local_replica(count)])
                return tf.nest.map_structure(tf.identity, unroll)  # from the store's device to this one

            if self.count == 1:
                with tf.device(device):
                    return own_part()
            return strategy.run(own_part)

        return read

    def acting_agent(self, agent: Agent, build: Callable[[], Agent]) -> tuple[Agent, Callable[[], None]]:
        """The agent that acts, and what brings the weights of the one that learns to it.

        Args:
          agent: learns.
          build: makes another one like it.
        """
        if self.shared:
            return agent, lambda: None
        with tf.device(self.split.inference):
            copy = build()

        @tf.function
        def refresh() -> None:
            for there, here in zip(copy.variables, agent.variables, strict=True):
                there.value.assign(_one_of(here.value))

        refresh()
        return copy, refresh

    def any(self, flag: bool) -> bool:
        """Whether any host says so; every host asks at the same point of its loop."""
        if self.hosts.count == 1:
            return flag
        return bool(self._sum([np.array(flag, np.float32)])[0] > 0)

    def from_first(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the first host has, on all of them; arrays of equal shapes and dtypes everywhere."""
        if self.hosts.count == 1:
            return list(arrays)
        return self._sum([array if self.is_first else np.zeros_like(array) for array in arrays])

    def _sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sums over the hosts."""
        with self.losing_hosts():
            return [total.numpy() for total in self._add([tf.constant(array) for array in arrays])]

    @tf.function
    def _add(self, arrays: list[tf.Tensor]) -> list[tf.Tensor]:
        def on_replica(arrays: list[tf.Tensor]) -> list[tf.Tensor]:
            is_first = _local_replica(self.local_count) == 0  # one of each host's
            context = tf.distribute.get_replica_context()
            # One by one: they may be of several dtypes.
            return [context.all_reduce("sum", tf.where(is_first, a, tf.zeros_like(a))) for a in arrays]

        sums = self.strategy.run(on_replica, (arrays,))
        return [self.strategy.experimental_local_results(total)[0] for total in sums]

    @contextlib.contextmanager
    def losing_hosts(self) -> Iterator[None]:
        """Says in a sentence that another host is gone, if what is computed inside fails for that.

        Raises:
          HostLost: it is.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if self.hosts.count == 1:
                raise
            _log.debug("what all hosts compute has failed", exc_info=True)
            raise HostLost(
                f"another learner host is gone ({type(error).__name__}): start all {self.hosts.count} again, and they "
                "continue from the last checkpoint"
            ) from error


def _local_replica(count: int) -> Any:
    """The place of the replica that asks among the `count` of its host."""
    return 0 if count == 1 else tf.distribute.get_replica_context().replica_id_in_sync_group % count


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
    _log.info("waiting for %d other learner hosts", hosts.count - 1)
    # Before anything else asks TensorFlow for its devices.
    try:
        with _own_sigterm():
            strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, _COMMUNICATION)
    except tf.errors.OpError as error:
        raise HostLost(f"not all of {', '.join(hosts.addresses)} came ({type(error).__name__})") from error
    training = tuple(name.rpartition("/device:")[2] for name in strategy.extended.worker_devices)
    return strategy, Split(training, training[0])


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """TensorFlow takes SIGTERM for a preemption that it alone is to hear of; here it asks the run to end."""
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
    for kind in (*_ACCELERATORS, "CPU"):
        found = tf.config.list_logical_devices(kind)
        if found:
            return [device.name.removeprefix("/device:") for device in found]
    raise BadDevices("TensorFlow has no devices")


def _strategy(training: Sequence[str]) -> tf.distribute.Strategy:
    if len(training) == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"/device:{name}" for name in training])
