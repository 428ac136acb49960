"""Which sequences of a batch the optimizer steps of a pass are made from.

Shapes: M steps, R replicas, n sequences in a step of a replica, so B = M R n in a batch.
"""

import numpy as np


def draw(count: int, sequences: int, generator: np.random.Generator) -> np.ndarray:
    """The sequences of each of `count` steps among the `sequences` of a replica: int32 [M, n], all of them once."""
    if count == 1:
        return np.arange(sequences, dtype=np.int32)[None]
    return generator.permutation(sequences).astype(np.int32).reshape(count, -1)


def in_order(drawn: np.ndarray, values: np.ndarray, replicas: int) -> np.ndarray:
    """Values [M, R n] of the sequences that were drawn, in the order of the batch: [B]; values [M, 0] give [0]."""
    if not values.size:
        return values.ravel()
    of_replicas = np.concatenate([step.reshape(replicas, -1) for step in values], axis=1)
    return of_replicas[:, np.argsort(drawn.ravel())].ravel()
