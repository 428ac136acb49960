import threading

import numpy as np
import pytest

from seed_rl.buffers.slots import SlotPool, UnrollQueue


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


def test_queue_is_first_in_first_out():
    queue = UnrollQueue(4)
    queue.put(np.array([7, 3]))
    queue.put(np.array([5]))
    np.testing.assert_array_equal(queue.take(2, timeout=0), [7, 3])
    assert queue.take(2, timeout=0) is None
    assert len(queue) == 1
    np.testing.assert_array_equal(queue.take(1, timeout=0), [5])


def test_queue_blocks_the_producer_while_it_is_full():
    queue = UnrollQueue(2)
    queue.put(np.array([0, 1]))
    passed = threading.Event()

    def produce():
        assert queue.wait_for_room()
        passed.set()

    thread = threading.Thread(target=produce)
    thread.start()
    assert not passed.wait(0.05)
    queue.take(1, timeout=0)
    assert passed.wait(10)
    thread.join()


def test_closing_the_queue_wakes_producer_and_consumer():
    queue = UnrollQueue(1)
    queue.put(np.array([0]))
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(queue.wait_for_room())),
        threading.Thread(target=lambda: results.append(queue.take(2, timeout=60))),
    ]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(10)
    assert sorted(results, key=str) == [False, None]


def test_no_unroll_is_lost_between_a_producer_and_a_consumer():
    pool, queue, total = SlotPool(12), UnrollQueue(4), 3000
    taken = []

    def produce():
        for _ in range(total // 3):
            assert queue.wait_for_room()
            queue.put(pool.acquire(3))  # bounded: capacity - 1 queued, 3 put, and up to 2 in the consumer's hands

    thread = threading.Thread(target=produce)
    thread.start()
    while len(taken) < total:
        slots = queue.take(2, timeout=10)
        assert slots is not None
        taken.extend(slots.tolist())
        pool.release(slots)
    thread.join()
    assert len(pool) == 12
    assert len(taken) == total
