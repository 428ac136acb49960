import asyncio
import threading
import time

import numpy as np

from seed_rl.inference.batcher import Batcher, Request
from seed_rl.specs import GroupLease
from seed_rl.types import EnvOutput


def request(begin, size):
    output = EnvOutput(np.zeros(size, np.float32), np.zeros(size, bool), np.zeros((size, 1), np.uint8))
    loop = asyncio.new_event_loop()
    try:
        return Request(GroupLease(tuple(range(begin, begin + size)), 0), False, output, loop.create_future())
    finally:
        loop.close()


def opened(batcher, *requests):
    for r in requests:
        batcher.group_opened(r.lease)
    return requests


def test_a_full_batch_is_due_at_once():
    batcher = Batcher(4, max_wait=1000)
    a, b, _ = opened(batcher, request(0, 2), request(2, 2), request(4, 2))
    batcher.put(a)
    batcher.put(b)
    assert batcher.get() == [a, b]


def test_a_batch_of_all_open_groups_is_due_at_once():
    batcher = Batcher(100, max_wait=1000)
    a, b = opened(batcher, request(0, 2), request(2, 3))
    batcher.put(b)
    batcher.put(a)
    assert batcher.get() == [b, a]


def test_a_silent_group_delays_the_others_by_the_wait_bound():
    batcher = Batcher(100, max_wait=0.03)
    a, _ = opened(batcher, request(0, 2), request(2, 2))
    started = time.monotonic()
    batcher.put(a)
    assert batcher.get() == [a]
    assert time.monotonic() - started >= 0.03


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
    batcher = Batcher(100, max_wait=1000)
    a, b = opened(batcher, request(0, 2), request(2, 2))
    got = []
    thread = threading.Thread(target=lambda: got.append(batcher.get()))
    thread.start()
    batcher.put(a)
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
        for r in batch:
            answered[groups.index(r)].release()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
