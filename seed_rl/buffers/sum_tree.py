"""A sum tree: numbers that are changed, and found by a point in their running sum, in O(log size) vector operations."""

from __future__ import annotations

import numpy as np


class SumTree:
    """`size` non-negative numbers, all zero at first, in a complete binary tree whose inner nodes are sums.

    A sum is always computed anew from its two children, so that it depends on the present numbers only: rounding does
    not build up over many changes. Not thread-safe.
    """

    def __init__(self, size: int):
        """
        Raises:
          ValueError: `size` is below 1.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size = size
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
          values: float [n].

        Raises:
          IndexError: an index is not in 0 .. size - 1.
          ValueError: a value is negative or not finite.
        """
        nodes = self._leaves(indices)
        values = np.asarray(values, np.float64)
        if not np.all((values >= 0) & (values < np.inf)):
            raise ValueError("the numbers of a sum tree must be finite and not negative")
        self._nodes[nodes] = values
        for _ in range(self._levels):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def get(self, indices: np.ndarray) -> np.ndarray:
        """The numbers at `indices` int [n]: float64 [n].

        Raises:
          IndexError: an index is not in 0 .. size - 1.
        """
        return self._nodes[self._leaves(indices)]

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Where each target falls when the numbers are laid end to end.

        Args:
          targets: float64 [n] in [0, `total`); values outside count as the nearest inside.

        Returns:
          int64 [n]: the i for which sum(numbers[:i]) <= target < sum(numbers[:i + 1]), up to rounding. Never one whose
          number is zero.

        Raises:
          ValueError: all numbers are zero, or a target is not a number.
        """
        if not self.total > 0:
            raise ValueError("there is nothing to find: all numbers are zero")
        rest = np.maximum(np.asarray(targets, np.float64), 0)
        if np.any(np.isnan(rest)):
            raise ValueError("a target is not a number")
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

    def _leaves(self, indices: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices, np.int64)
        outside = (indices < 0) | (indices >= self.size)
        if np.any(outside):
            raise IndexError(f"index {indices[outside][0]} is not in 0 .. {self.size - 1}")
        return indices + self._first_leaf
