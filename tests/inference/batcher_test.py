import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seed_rl.inference.batcher import Batcher
from seed_rl.specs import GroupLease
from seed_rl.transport.streams import Request
from seed_rl.types import EnvOutput
from tests.support.deadlines import within


class Timed(Batcher):
    """A batcher whose seconds pass when a test says so."""

    def __init__(self, max_batch_size, max_wait=1000):
        super().__init__(max_batch_size, max_wait, clock=lambda: self.now)
        self.now = 100.0


def request(begin, size):
    lease = GroupLease(tuple(range(begin, begin + size)), 0)
    output = EnvOutput(np.zeros(size, np.float32), *np.zeros((2, size), bool), np.zeros((size, 1), np.uint8))
    return Request(lease, lease.env_id_array, False, output, stream=None)


def opened(batcher, *requests):
    for r in requests:
        batcher.group_opened(r.lease)
    return requests


def expect(batcher, *requests, turnarounds=(1, 1)):
    """Lets groups come back so many seconds after an answer, and answers again; the last one is not back yet."""
    for turnaround in turnarounds:
        for r in requests:
            batcher.put(r)
        assert batcher.get() == list(requests)
        batcher.answered(requests)
        batcher.now += turnaround


def waiting(batcher):
    """A thread that waits for a batch, and the list to which it will add what it gets."""
    got = []
    thread = threading.Thread(target=lambda: got.append(batcher.get()))
    thread.start()
    thread.join(0.02)
    assert got == []
    return thread, got


@pytest.mark.parametrize(
    ("turnarounds", "waited_for"),
    [
        ((500, 500), True),
        ((1500, 0), False),  # slower than the bound
        ((100, 1000), False),  # usually back soon, but not this time
        ((1700, 500, 0), False),  # slower on average
        ((100, 1500, 0), True),  # slow only once
        ((), False),  # has never come back yet
    ],
)
def test_groups_are_waited_for_if_they_usually_come_back_within_the_bound(turnarounds, waited_for):
    batcher = Timed(100)
    a, b = opened(batcher, request(0, 2), request(2, 3))
    expect(batcher, a, b, turnarounds=turnarounds)
    batcher.put(a)
    if waited_for:
        thread, got = waiting(batcher)
        batcher.close()
        thread.join(within(10))
        assert got == [None], "the end of the run"
    else:
        assert batcher.get() == [a]


def test_a_batch_of_whole_requests_is_due_when_it_is_full_or_all_expected_groups_are_there():
    batcher = Timed(7)
    a, b, c, _sleeper = opened(batcher, request(0, 2), request(2, 2), request(4, 2), request(6, 1))
    expect(batcher, a, b, c)
    d, e = opened(batcher, request(7, 3), request(10, 3))
    for each in (d, e, b, a):
        batcher.put(each)
    assert batcher.get() == [d, e], "though c is expected; there is no room for all of b"
    batcher.put(c)
    assert batcher.get() == [b, a, c]


def test_the_request_that_fills_a_batch_releases_it():
    batcher = Timed(4)
    a, b, c = opened(batcher, request(0, 2), request(2, 2), request(4, 1))
    expect(batcher, c)
    batcher.put(a)
    thread, got = waiting(batcher)
    batcher.put(b)
    thread.join(within(10))
    assert got == [[a, b]], "though c is expected"


def test_the_oldest_request_waits_no_longer_than_the_bound_whoever_is_expected():
    batcher = Timed(4)
    a, b = opened(batcher, request(0, 2), request(2, 1))
    expect(batcher, b)
    batcher.put(a)
    batcher.now += 600
    batcher.answered([b])
    batcher.now += 400
    assert batcher.get() == [a]


def test_the_time_of_groups_is_their_waiting_and_their_stepping():
    batcher = Timed(4)
    a, b = opened(batcher, request(0, 2), request(2, 2))
    batcher.put(a)
    batcher.now += 3
    batcher.put(b)
    batcher.now += 5
    batcher.get()
    batcher.now += 7
    batcher.answered([a, b])
    assert batcher.waiting_seconds == (3 + 5 + 7) + (5 + 7)
    batcher.now += 11
    batcher.put(b)
    assert (batcher.waiting_seconds, batcher.stepping_seconds) == (27, 11)


def test_a_closed_group_takes_its_request_along_and_releases_the_batch_that_waited_for_it():
    batcher = Timed(4)
    a, b, c, d = opened(batcher, request(0, 2), request(2, 1), request(3, 1), request(4, 1))
    expect(batcher, a, b, c)
    batcher.put(b)
    batcher.put(a)
    batcher.group_closed(b.lease)
    batcher.put(d)
    thread, got = waiting(batcher)
    batcher.group_closed(c.lease)
    thread.join(within(10))
    assert got == [[a, d]]


def test_every_request_is_handed_out_once_among_many_producers():
    batcher = Batcher(8, max_wait=0.001)
    groups = opened(batcher, *(request(4 * n, 1 + n % 4) for n in range(16)))
    rounds = 30
    answered = [threading.Semaphore(0) for _ in groups]

    def produce(n):
        for _ in range(rounds):
            batcher.put(groups[n])
            assert answered[n].acquire(timeout=within(10))

    with ThreadPoolExecutor(len(groups)) as pool:
        producers = [pool.submit(produce, n) for n in range(len(groups))]
        seen = 0
        while seen < rounds * len(groups):
            batch = batcher.get()
            assert 0 < sum(len(r.env_ids) for r in batch) <= 8
            assert len({id(r) for r in batch}) == len(batch)
            seen += len(batch)
            batcher.answered(batch)
            for r in batch:
                answered[groups.index(r)].release()
        for producer in producers:
            producer.result(within(10))


def test_a_group_hangs_if_it_was_answered_and_does_not_come_back():
    batcher = Timed(4, max_wait=0.0)
    one, two = opened(batcher, request(0, 1), request(1, 2))
    expect(batcher, one, two)
    assert batcher.hanging(60) == 0
    batcher.now += 60
    assert batcher.hanging(60) == 3
    batcher.put(one)  # waits for the learner now, not the learner for it
    batcher.now += 60
    assert batcher.hanging(60) == 2
    assert batcher.group_closed(one.lease) == 0
    assert batcher.group_closed(two.lease) == 121
    assert batcher.hanging(60) == 0
