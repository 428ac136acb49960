"""Delays between tries."""

import statistics

from seed_rl.transport.backoff import Backoff


def test_delays_double_up_to_the_cap_are_jittered_and_start_over():
    longest = [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    backoffs = [Backoff(first=0.5, cap=5.0) for _ in range(200)]
    for bound in [*longest, *longest]:
        if bound == 0.5:
            for backoff in backoffs:
                backoff.reset()
        delays = [backoff.next() for backoff in backoffs]
        assert bound / 2 <= min(delays) <= max(delays) <= bound
        assert statistics.stdev(delays) > bound / 20
