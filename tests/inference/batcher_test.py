import threading

import numpy as np

from seed_rl.inference.batcher import Batcher, Request
from seed_rl.specs import GroupLease
from seed_rl.types import EnvOutput


def request(begin, size):
    output = EnvOutput(np.zeros(size, np.float32), np.zeros(size, bool), np.zeros((size, 1), np.uint8))
    return Request(GroupLease(tuple(range(begin, begin + size)), 0), False, output, stream=None)


def opened(batcher, *requests):
    for r in requests:
        batcher.group_opened(r.lease)
    return requests


def play_once(batcher, clock, turnaround, *requests):
    """Lets groups send a request, get their answer and come back after `turnaround` seconds."""
    for r in requests:
        batcher.put(r)
    assert batcher.get() == list(requests)
    batcher.answered(requests)
    clock.now += turnaround


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self):
        return self.now


def due(batcher):
    """The batch that `get` hands out, or None if it goes on waiting."""
    got = []
    thread = threading.Thread(target=lambda: got.append(batcher.get()))
    thread.start()
    thread.join(0.05)
    if thread.is_alive():
        batcher.close()
        thread.join()
        return None
    return got[0]


def test_a_full_batch_is_due_at_once():
    batcher = Batcher(4, max_wait=1000)
    a, b, _ = opened(batcher, request(0, 2), request(2, 2), request(4, 2))
    batcher.put(a)
    batcher.put(b)
    assert batcher.get() == [a, b]


def test_groups_that_never_came_back_yet_are_not_waited_for():
    batcher = Batcher(100, max_wait=1000)
    a, _ = opened(batcher, request(0, 2), request(2, 3))
    batcher.put(a)
    assert due(batcher) == [a]


def test_groups_that_come_back_soon_are_waited_for():
    clock = Clock()
    batcher = Batcher(100, max_wait=1000, clock=clock)
    a, b = opened(batcher, request(0, 2), request(2, 3))
    play_once(batcher, clock, 500, a, b)
    play_once(batcher, clock, 500, a, b)
    batcher.put(a)
    assert due(batcher) is None, "b is expected"


def test_a_batch_is_due_when_all_that_are_expected_are_there():
    clock = Clock()
    batcher = Batcher(100, max_wait=1000, clock=clock)
    a, b, _sleeper = opened(batcher, request(0, 2), request(2, 3), request(5, 1))
    play_once(batcher, clock, 500, a, b)
    play_once(batcher, clock, 500, a, b)
    batcher.put(b)
    batcher.put(a)
    assert due(batcher) == [b, a]


def test_slow_groups_are_not_waited_for():
    clock = Clock()
    batcher = Batcher(100, max_wait=1000, clock=clock)
    a, b = opened(batcher, request(0, 2), request(2, 3))
    play_once(batcher, clock, 1500, a, b)
    play_once(batcher, clock, 1500, a, b)
    batcher.put(a)
    assert due(batcher) == [a]


def test_an_expected_group_that_is_late_delays_the_others_by_the_wait_bound_once():
    clock = Clock()
    batcher = Batcher(100, max_wait=1000, clock=clock)
    a, b = opened(batcher, request(0, 2), request(2, 3))
    play_once(batcher, clock, 100, a, b)
    play_once(batcher, clock, 100, a, b)
    clock.now += 900  # since the answer
    batcher.put(a)
    assert due(batcher) == [a], "b is late"


def test_the_time_of_groups_is_their_waiting_and_their_stepping():
    clock = Clock()
    batcher = Batcher(4, max_wait=1000, clock=clock)
    a, b = opened(batcher, request(0, 2), request(2, 2))
    batcher.put(a)
    clock.now += 3
    batcher.put(b)
    clock.now += 5
    batcher.get()
    clock.now += 7
    batcher.answered([a, b])
    assert batcher.waiting_seconds == (3 + 5 + 7) + (5 + 7)
    clock.now += 11
    batcher.put(b)
    assert (batcher.waiting_seconds, batcher.stepping_seconds) == (27, 11)


def test_requests_are_not_split():
    batcher = Batcher(5, max_wait=1000)
    a, b, c = opened(batcher, request(0, 3), request(3, 3), request(6, 2))
    for r in (a, b, c):
        batcher.put(r)
    assert batcher.get() == [a]
    assert batcher.get() == [b, c]


def test_a_closed_group_takes_its_request_along_and_is_not_waited_for():
    batcher = Batcher(100, max_wait=1000)
    a, b = opened(batcher, request(0, 2), request(2, 2))
    batcher.put(a)
    batcher.group_closed(a.lease)
    batcher.put(b)
    assert batcher.get() == [b]


def test_a_group_that_leaves_releases_the_batch_that_waited_for_it():
    clock = Clock()
    batcher = Batcher(100, max_wait=1000, clock=clock)
    a, b = opened(batcher, request(0, 2), request(2, 2))
    play_once(batcher, clock, 1, a, b)
    play_once(batcher, clock, 1, a, b)
    got = []
    thread = threading.Thread(target=lambda: got.append(batcher.get()))
    thread.start()
    batcher.put(a)
    thread.join(0.02)
    assert got == []
    batcher.group_closed(b.lease)
    thread.join(10)
    assert got == [[a]]


def test_close_ends_the_consumer():
    batcher = Batcher(100, max_wait=1000)
    got = []
    thread = threading.Thread(target=lambda: got.append(batcher.get()))
    thread.start()
    batcher.close()
    thread.join(10)
    assert got == [None]


def test_every_request_is_handed_out_once_among_many_producers():
    batcher = Batcher(8, max_wait=0.001)
    groups = opened(batcher, *(request(4 * n, 1 + n % 4) for n in range(16)))
    rounds = 50
    answered = [threading.Semaphore(0) for _ in groups]

    def produce(n):
        for _ in range(rounds):
            batcher.put(groups[n])
            assert answered[n].acquire(timeout=10)

    threads = [threading.Thread(target=produce, args=(n,)) for n in range(len(groups))]
    for thread in threads:
        thread.start()
    seen = 0
    while seen < rounds * len(groups):
        batch = batcher.get()
        assert 0 < sum(len(r.env_ids) for r in batch) <= 8
        assert len({id(r) for r in batch}) == len(batch)
        seen += len(batch)
        batcher.answered(batch)
        for r in batch:
            answered[groups.index(r)].release()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_the_consumer_is_woken_for_the_first_request_and_for_the_one_that_makes_a_batch():
    clock = Clock()
    batcher = Batcher(6, max_wait=1000, clock=clock)
    groups = opened(batcher, *(request(2 * i, 2) for i in range(4)))
    play_once(batcher, clock, 1, *groups[:3])
    play_once(batcher, clock, 1, *groups[:3])  # now all three are expected
    woken = []
    notify = batcher._changed.notify
    batcher._changed.notify = lambda: (woken.append(len(batcher._requests)), notify())
    for r in groups[:3]:
        batcher.put(r)
    assert woken == [1, 3]
