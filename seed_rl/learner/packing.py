"""Tensors of an update as one array, the form in which learner hosts add them up."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seed_rl.learner.hosts import Hosts


class Packing:
    """Packs tensors for a sum over hosts, and unpacks means and maxima from it. `pack` is to be traced first."""

    def __init__(self, hosts: Hosts):
        self._hosts = hosts
        self._means: Any = None  # TensorSpecs

    def pack(self, means: Any, maxima: tf.Tensor) -> tf.Tensor:
        """One array of a host's tensors.

        Args:
          means: a nest of float32 tensors whose means over hosts are wanted.
          maxima: float32 [M], whose maxima are wanted; each host has a place of its own for them.

        Returns:
          float32 [N].
        """
        self._means = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape), means)
        index, count = self._hosts.index, self._hosts.count
        own_place = tf.pad(maxima[None], [[index, count - 1 - index], [0, 0]])
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in [*tf.nest.flatten(means), own_place]], axis=0)

    def unpack(self, total: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Means and maxima over all hosts from the sum of their arrays, float32 [N]."""
        specs = tf.nest.flatten(self._means)
        sizes = [spec.shape.num_elements() for spec in specs]
        *sums, places = tf.split(total, [*sizes, total.shape[0] - sum(sizes)])
        means = [tf.reshape(each, spec.shape) / self._hosts.count for each, spec in zip(sums, specs, strict=True)]
        maxima = tf.reduce_max(tf.reshape(places, [self._hosts.count, -1]), axis=0)
        return tf.nest.pack_sequence_as(self._means, means), maxima
