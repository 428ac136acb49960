"""Training and inference devices of a host, and the transfer of weights, batches and results between them.

Each training device has a copy of the weights (a replica) and gets an equal part of every batch; gradients are
averaged, so that an update is the same on one device and on many if a loss is a mean over the batch. With several
devices, inference devices have copies of the weights, refreshed after every update: a compiled step can't read
variables of another device.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import Addresses, UnrollStore
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.learner.device_split import split_devices
from seed_rl.system import devices
from seed_rl.system.files import explaining
from seed_rl.types import Unroll

_log = logging.getLogger(__name__)


class Replicas:
    """The devices of a learner process."""

    def __init__(self, experiment: Experiment, learners: int = 1):
        """Each of the learner processes has an equal part of the batch; for the errors see `split_devices`."""
        make_logical_cpus(experiment.devices.logical_cpus)
        available = _available()
        self.split = split_devices(experiment, available, learners)
        self.strategy = _strategy(self.split.training, learners)
        self.count = self.strategy.num_replicas_in_sync
        """Training devices."""
        self.shared = self.split.training == self.split.inference and self.count == 1
        """Whether one device both trains and acts."""
        is_default = self.shared and self.split.inference[0] in ("GPU:0", "CPU:0")
        self.inference_devices = ("",) if is_default else self.split.inference
        """Inference devices; "" for TensorFlow's default."""
        training, inference = map(", ".join, self.split)
        unused = ", ".join(name for name in available if name not in (*self.split.training, *self.split.inference))
        used = f"training and acting on {training}" if self.shared else f"training on {training}, acting on {inference}"
        _log.info("%s%s", used, f"; {unused} would need another batch size or Devices" if unused else "")

    def scope(self) -> AbstractContextManager[Any]:
        """Context in which variables are created on every training device."""
        if self.count > 1:
            return self.strategy.scope()
        return tf.device(self.inference_devices[0] if self.shared else self.split.training[0])

    def reader(self, store: UnrollStore, number: int = 0) -> Callable[[Addresses], list[Unroll]]:
        """Return what copies B unrolls of an inference device, in equal parts to the devices that it feeds."""
        if self.shared:
            return lambda addresses: [store.read(addresses)]
        count = self.count // len(self.split.inference)
        devices = self.split.training[number * count : (number + 1) * count]

        @tf.function(autograph=False)
        def read(addresses: Addresses) -> list[Unroll]:
            parts, split = [], (tf.split(each, count, axis=-1) for each in addresses)
            for slots, places, device in zip(*split, devices, strict=True):
                unroll = store.read(Addresses(slots, places))
                with tf.device(device):  # to it, from the store's
                    parts.append(tf.nest.map_structure(tf.identity, unroll))
            return parts

        return read

    def join(self, parts: Sequence[Unroll]) -> Unroll:
        """Combine the parts of the training devices into the argument of the update."""
        if self.count == 1:
            return parts[0]
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group]
        )

    def acting_agents(
        self, agent: Agent, build: Callable[[], Agent], whole_weights: bool = False
    ) -> tuple[list[Agent], Callable[[], None]]:
        """Build an acting agent per inference device, and a function that copies the learning agent's weights to them.

        With `whole_weights` acting has a copy also on a single device, so that it never sees half an update.
        """
        if self.shared and not whole_weights:
            return [agent], lambda: None
        copies = []
        for device in self.inference_devices:
            with tf.device(device):
                copies.append(build())

        @tf.function(autograph=False)
        def refresh() -> None:
            for copy in copies:
                for there, here in zip(copy.variables, agent.variables, strict=True):
                    there.value.assign(self.strategy.experimental_local_results(here.value)[0])

        refresh()
        return copies, refresh


def make_logical_cpus(count: int) -> None:
    """Split the CPU into a number of logical devices, unless TensorFlow has made its devices already."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if count == len(tf.config.get_logical_device_configuration(cpu) or [cpu]):
        return
    with explaining(ConfigError, f"Devices.logical_cpus = {count} comes too late", RuntimeError):
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)


def _available() -> list[str]:
    if devices.is_without_its_tpu():
        raise ConfigError("this TensorFlow is the build for TPUs, and finds none: on a CPU, install tensorflow")
    if tf.config.list_physical_devices("TPU"):
        _tpu()
    found = next(filter(None, map(tf.config.list_logical_devices, ("TPU", "GPU", "CPU"))))
    return [device.name.rpartition("/device:")[2] for device in found]


def _strategy(training: Sequence[str], learners: int) -> tf.distribute.Strategy:
    if len(training) == 1:
        return tf.distribute.get_strategy()
    if training[0].startswith("TPU"):
        resolver, topology = _tpu()
        return tf.distribute.TPUStrategy(resolver, assignment(topology, training))
    # By default it reduces by collectives, too, under keys that would be the same for all learners.
    reduction = tf.distribute.ReductionToOneDevice() if learners > 1 else None
    return tf.distribute.MirroredStrategy([f"/device:{name}" for name in training], reduction)


@functools.cache
def _tpu() -> tuple[Any, tf.tpu.experimental.Topology]:
    """Initialise this host's TPU, which makes its cores usable; cached, because a second time would clear them."""
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    return resolver, tf.tpu.experimental.initialize_tpu_system(resolver)


def assignment(topology: tf.tpu.experimental.Topology, cores: Sequence[str]) -> tf.tpu.experimental.DeviceAssignment:
    """Place replica r on the r-th of the given cores of a host's TPU, such as `TPU:2`; other cores stay free."""
    by_ordinal = {topology.tpu_device_ordinal_at_coordinates(at): at for at in topology.device_coordinates[0]}
    chosen = [by_ordinal[int(core.rpartition(":")[2])] for core in cores]
    return tf.tpu.experimental.DeviceAssignment(topology, np.array(chosen)[:, None, :])
