"""A sum tree: numbers that are changed, or found by a point in their running sum, in O(log size) vector operations."""

import numpy as np


class SumTree:
    """`size` non-negative numbers, initially zero, in a complete binary tree whose inner nodes are sums.

    Every sum is recomputed from its two children, so that it depends only on the current numbers and rounding errors
    do not accumulate. Not thread-safe. Arguments are not checked here but in the samplers.
    """

    def __init__(self, size: int):
        self._levels = (size - 1).bit_length()
        self._first_leaf = 1 << self._levels
        # Node 1 is the root, the children of node i are 2 * i and 2 * i + 1; node 0 is not used.
        self._nodes = np.zeros(2 * self._first_leaf, np.float64)

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._nodes[1])

    def set(self, indices: np.ndarray, values: np.ndarray) -> None:
        """Replace numbers at `indices` int [n] by `values` float64 [n]; of a repeated index the last value counts."""
        nodes = indices + self._first_leaf
        self._nodes[nodes] = values
        for _ in range(self._levels):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def get(self, indices: np.ndarray) -> np.ndarray:
        """The numbers at `indices` int [n]: float64 [n]."""
        return self._nodes[indices + self._first_leaf]

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Return the i, int64 [n], where each target, float64 [n] in [0, `total`), falls with numbers laid end to end.

        There sum(numbers[:i]) <= target < sum(numbers[:i + 1]), up to rounding, and the number is not zero.
        """
        rest = np.maximum(targets, 0)
        nodes = np.ones(rest.shape, np.int64)
        for _ in range(self._levels):
            nodes = 2 * nodes
            left = self._nodes[nodes]
            # Every node on the path has a positive sum: an empty left half is never entered because rest >= 0, and an
            # empty right half not even if rounding has put a target at or past the end of the node.
            right = (rest >= left) & (self._nodes[nodes + 1] > 0)
            rest = np.where(right, rest - left, rest)
            nodes = nodes + right
        return nodes - self._first_leaf
