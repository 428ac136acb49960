"""The minibatches of a pass over a batch: which sequences and which random numbers each optimizer step gets.

Shapes: M minibatches, R replicas, n sequences in a minibatch of a replica, so B = M R n in a batch.
"""

import numpy as np


def draw_minibatches(count: int, sequences: int, generator: np.random.Generator) -> np.ndarray:
    """Divide the sequences of a replica into `count` equal random parts, int32 [M, n]; a single part is in order."""
    if count == 1:
        return np.arange(sequences, dtype=np.int32)[None]
    return generator.permutation(sequences).astype(np.int32).reshape(count, -1)


def draw_seeds(count: int, generator: np.random.Generator, replicas: int) -> np.ndarray:
    """Draw a seed for each of `count` steps, int32 [M, 2], to which each replica adds its number."""
    return generator.integers(2**31 - replicas, size=(count, 2), dtype=np.int32)


def in_batch_order(minibatches: np.ndarray, values: np.ndarray, replicas: int) -> np.ndarray:
    """Bring the values of the sequences in minibatches, [M, R n], into the order of the batch, [B].

    The result is empty if there are no values, [M, 0].
    """
    if not values.size:
        return np.zeros(0, np.float32)
    of_replicas = np.concatenate([step.reshape(replicas, -1) for step in values], axis=1)
    return of_replicas[:, np.argsort(minibatches.ravel())].ravel()
