"""Which sequences of a batch the optimizer steps of a pass are made from.

Shapes: M steps, R replicas, n sequences in a step of a replica, so B = M R n in a batch.
"""

import numpy as np

from seed_rl.learner.hosts import Hosts


def draw(count: int, sequences: int, generator: np.random.Generator) -> np.ndarray:
    """The sequences of each of `count` steps among the `sequences` of a replica: int32 [M, n], all of them once."""
    if count == 1:
        return np.arange(sequences, dtype=np.int32)[None]
    return generator.permutation(sequences).astype(np.int32).reshape(count, -1)


def draw_seeds(count: int, generator: np.random.Generator, replicas: int, hosts: Hosts) -> np.ndarray:
    """The seeds of each of `count` steps, int32 [M, 2], to which each replica of this host adds its number."""
    seeds = generator.integers(2**31 - replicas * hosts.count, size=(count, 2), dtype=np.int32)
    return seeds + np.int32(replicas * hosts.index)


def in_order(drawn: np.ndarray, values: np.ndarray, replicas: int) -> np.ndarray:
    """Return values [M, R n] of the drawn sequences in the order of the batch: [B].

    The result is empty if there are no values, [M, 0], or if the pass ended before its last step.
    """
    if not values.size or len(values) < len(drawn):
        return np.zeros(0, np.float32)
    of_replicas = np.concatenate([step.reshape(replicas, -1) for step in values], axis=1)
    return of_replicas[:, np.argsort(drawn.ravel())].ravel()
