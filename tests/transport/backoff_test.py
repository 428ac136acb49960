"""Delays between tries."""

import random
import statistics

import pytest

from seed_rl.transport.backoff import Backoff


def test_delays_double_up_to_the_cap_and_are_jittered():
    longest = [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    backoffs = [Backoff(0.5, 5.0, rng=random.Random(seed)) for seed in range(200)]
    runs = [[backoff.next() for _ in longest] for backoff in backoffs]
    for bound, delays in zip(longest, zip(*runs, strict=True), strict=True):
        assert bound / 2 <= min(delays) <= max(delays) <= bound
        assert statistics.stdev(delays) > bound / 20


def test_reset_starts_over():
    backoff = Backoff(1.0, 100.0, rng=random.Random(0))
    assert [backoff.next() for _ in range(5)][-1] >= 8
    backoff.reset()
    assert backoff.next() <= 1.0


def test_is_an_iterator():
    backoff = Backoff(1.0, 2.0, rng=random.Random(0))
    delays = [delay for delay, _ in zip(backoff, range(3), strict=False)]
    assert len(delays) == 3
    assert iter(backoff) is backoff


@pytest.mark.parametrize("arguments", [(0.0, 1.0), (2.0, 1.0), (1.0, 2.0, 0.5)])
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match="need 0 < first <= cap"):
        Backoff(*arguments)
