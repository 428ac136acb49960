import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seed_rl.buffers.slots import SlotPool, UnrollQueue
from tests.support.deadlines import within


def test_pool_hands_out_each_slot_once_and_remembers_the_version_of_its_unroll():
    pool = SlotPool(5)
    first, second = pool.acquire(3, version=7), pool.acquire(2, version=9)
    assert sorted([*first, *second]) == [0, 1, 2, 3, 4]
    assert pool.versions[first].tolist() == [7] * 3
    assert pool.versions[second].tolist() == [9] * 2
    with pytest.raises(RuntimeError, match="1 slots requested, 0 of 5 are free"):
        pool.acquire(1)
    pool.release(first)
    assert pool.versions[first].tolist() == [7] * 3, "until the next unroll"
    assert sorted(pool.acquire(3)) == sorted(first)


def test_closing_the_queue_wakes_producer_and_consumer():
    queue = UnrollQueue(1)
    queue.put(np.array([0]))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(queue.wait_for_room), pool.submit(queue.take, 2, timeout=within(60))
        queue.close()
        assert [each.result(within(10)) for each in waiting] == [False, None]


def test_acting_on_demand_waits_until_somebody_takes_more_than_there_is():
    queue = UnrollQueue(4)
    assert queue.take(1, timeout=0) is None
    with ThreadPoolExecutor(2) as pool, contextlib.closing(queue):

        def wait():
            waiting = pool.submit(queue.wait_for_demand)
            with pytest.raises(TimeoutError):
                waiting.result(0.05)  # nobody takes
            return waiting

        waiting = wait()
        taking = pool.submit(queue.take, 2, timeout=within(60))
        assert waiting.result(within(10))
        queue.put(np.array([3, 2, 1]))
        assert taking.result(within(10)).tolist() == [3, 2]
        assert len(queue) == 1
        waiting = wait()
        queue.close()
        assert not waiting.result(within(10))


def test_no_unroll_is_lost_between_a_producer_and_a_consumer_and_none_waits_beyond_the_capacity():
    pool, queue, total = SlotPool(12), UnrollQueue(4), 3000
    made, taken = [], []

    def produce():
        for _ in range(total // 3):
            assert queue.wait_for_room()
            slots = pool.acquire(3)  # bounded: capacity - 1 queued, 3 put, and up to 2 in the consumer's hands
            made.extend(slots.tolist())
            queue.put(slots)

    thread = threading.Thread(target=produce)
    thread.start()
    while len(taken) < total:
        assert len(queue) < 4 + 3
        slots = queue.take(2, timeout=within(10))
        assert slots is not None
        taken.extend(slots.tolist())
        pool.release(slots)
    thread.join()
    assert taken == made, "first in, first out"
    assert len(pool) == 12
    assert queue.take(1, timeout=0) is None
