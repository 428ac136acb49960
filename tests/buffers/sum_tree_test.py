import math

import numpy as np
import pytest

from seed_rl.buffers.sum_tree import SumTree


def test_sums_do_not_depend_on_the_past():
    rng = np.random.default_rng(0)
    size = 1000
    worn, values = SumTree(size), np.zeros(size)
    for _ in range(1000):
        indices = rng.integers(size, size=100)
        new = 10.0 ** rng.uniform(-12, 12, size=100)  # differences of such numbers would leave large errors behind
        worn.set(indices, new)
        values[indices] = new
    # 100,000 changes later:
    assert worn.total == pytest.approx(math.fsum(values), rel=1e-14)
    fresh = SumTree(size)
    fresh.set(np.arange(size), values)
    assert worn.total == fresh.total
    targets = rng.random(10_000) * worn.total
    np.testing.assert_array_equal(worn.find(targets), fresh.find(targets))
    worn.set(np.arange(size), np.zeros(size))
    assert worn.total == 0


@pytest.mark.parametrize("size", [3, 100])
def test_never_finds_a_zero_whatever_the_rounding(size):
    rng = np.random.default_rng(0)
    tree = SumTree(size)
    for _ in range(300):
        values = 10.0 ** rng.uniform(-20, 20, size=size) * (rng.random(size) < 0.3)
        values[rng.integers(size)] = 5e-324  # the smallest positive number
        tree.set(np.arange(size), values)
        edges = np.cumsum(values)
        targets = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf), [0, -1, 2 * tree.total]])
        found = tree.find(targets)
        assert found.dtype == np.int64
        assert len(found) == 3 * size + 3
        assert np.all((found >= 0) & (found < size))
        assert np.all(values[found] > 0)
