"""One source of batches from several devices that act."""

import numpy as np
import pytest

from seed_rl.learner.joined_source import JoinedSource
from seed_rl.learner.sources import Batch, Source


class Recorded(Source):
    """Gives what is put into `batches`; keeps what is written back."""

    def __init__(self, **gauges):
        self.batches, self.written, self._gauges = [], [], gauges
        self._taken = 0

    @property
    def taken(self):
        return self._taken

    def next(self, timeout):
        if not self.batches:
            return None
        self._taken += 2
        return self.batches.pop(0)

    def write_back(self, priorities):
        self.written.append(priorities.tolist())

    def gauges(self):
        return self._gauges


def batch(number, weights=None):
    return Batch([f"{number}a", f"{number}b"], np.array([10 * number, 10 * number + 1]), weights)


def test_a_batch_is_made_of_one_of_each_in_order():
    first, second = Recorded(), Recorded()
    joined = JoinedSource([first, second])
    second.batches = [batch(2)]
    assert joined.next(0) is None
    assert joined.taken == 2, "what has been taken counts"
    second.batches = [batch(4)]
    first.batches = [batch(1), batch(3)]
    for expected in ((1, 2), (3, 4)):
        together = joined.next(0)
        assert list(together.parts) == [f"{number}{letter}" for number in expected for letter in "ab"]
        assert together.versions.tolist() == [10 * number + n for number in expected for n in (0, 1)]
        assert together.importance_weights is None
    assert joined.next(0) is None
    assert joined.taken == 8
    assert joined.snapshot is None


def test_weights_and_priorities_are_those_of_the_replay_that_an_unroll_is_from():
    sources = [Recorded(), Recorded()]
    joined = JoinedSource(sources)
    for number, source in enumerate(sources):
        source.batches = [batch(number, np.array([number, 0.5], np.float32))]
    assert joined.next(0).importance_weights.tolist() == [0, 0.5, 1, 0.5]
    joined.write_back(np.array([1, 2, 3, 4], np.float32))
    assert [source.written for source in sources] == [[[1, 2]], [[3, 4]]]


def test_sizes_add_up_and_ratios_do_not():
    joined = JoinedSource([Recorded(**{"replay/size": 3.0, "replay/ratio": 0.5}), Recorded(**{"replay/size": 5.0})])
    assert joined.gauges() == {"replay/size": 8.0}
    joined = JoinedSource([Recorded(**{"replay/ratio": 0.5}), Recorded(**{"replay/ratio": 1.0})])
    assert joined.gauges() == {"replay/ratio": pytest.approx(0.75)}
