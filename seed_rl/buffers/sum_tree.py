"""A sum tree: numbers that are changed, and found by a point in their running sum, in O(log size) vector operations."""

from __future__ import annotations

import numpy as np


class SumTree:
    """`size` non-negative numbers, all zero at first, in a complete binary tree whose inner nodes are sums.

    A sum is always computed anew from its two children, so that it depends on the present numbers only: rounding does
    not build up over many changes. Not thread-safe. Arguments are not checked: samplers do so.
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
        """Replaces numbers.

        Args:
          indices: int [n]; of an index that occurs more than once, the last value counts.
          values: float64 [n], finite and not negative.
        """
        nodes = indices + self._first_leaf
        self._nodes[nodes] = values
        for _ in range(self._levels):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def get(self, indices: np.ndarray) -> np.ndarray:
        """The numbers at `indices` int [n]: float64 [n]."""
        return self._nodes[indices + self._first_leaf]

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Where each target falls when the numbers are laid end to end.

        Args:
          targets: float64 [n] in [0, `total`); values outside count as the nearest inside.

        Returns:
          int64 [n]: the i for which sum(numbers[:i]) <= target < sum(numbers[:i + 1]), up to rounding. Never one whose
          number is zero, unless all are.
        """
        rest = np.maximum(targets, 0)
        nodes = np.ones(rest.shape, np.int64)
        for _ in range(self._levels):
            nodes = 2 * nodes
            left = self._nodes[nodes]
            # The sum of every node on the way is positive. An empty left half is never entered, for rest >= 0; an empty
            # right half not even when rounding has left a target at or behind the node's end.
            right = (rest >= left) & (self._nodes[nodes + 1] > 0)
            rest = np.where(right, rest - left, rest)
            nodes = nodes + right
        return nodes - self._first_leaf
