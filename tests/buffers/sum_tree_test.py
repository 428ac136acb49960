import math

import numpy as np
import pytest

from seed_rl.buffers.sum_tree import SumTree


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_a_running_sum_finds_the_same(size):
    rng = np.random.default_rng(size)
    tree, twin = SumTree(size), [0.0] * size
    for _ in range(200):
        count = rng.integers(5)
        indices = rng.integers(size, size=count)  # some more than once: the last value counts
        values = rng.integers(0, 4, size=count) / 4  # exact sums, and many zeros
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            twin[index] = value
        np.testing.assert_array_equal(tree.get(np.arange(size)), twin)
        assert tree.total == sum(twin)
        if tree.total:
            targets = np.arange(0, tree.total, 0.125)
            assert len(targets) == 8 * tree.total
            want = [next(i for i in range(size) if t < sum(twin[: i + 1])) for t in targets]
            np.testing.assert_array_equal(tree.find(targets), want)
            outside = tree.find(np.array([-1.0, tree.total, 2 * tree.total]))  # counts as the nearest inside
            np.testing.assert_array_equal(outside, [want[0], want[-1], want[-1]])


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
