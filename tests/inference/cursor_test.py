import numpy as np
import pytest

from seed_rl.buffers.slots import SlotPool
from seed_rl.inference.cursor import UnrollCursor


def make(num_envs, length, stride, stagger=False, recorded=None, history=0):
    """A cursor and a pool of the slots for unrolls in progress, and one to be finished by each environment."""
    window = history + length
    pool = SlotPool(num_envs * -(-(length - 1) // stride) + num_envs, 2 * num_envs * window, window)
    recorded = np.ones(num_envs, bool) if recorded is None else recorded
    cursor = UnrollCursor(recorded, length, stride, pool, stagger)
    cursor.restart(np.arange(num_envs))
    return cursor, pool


@pytest.mark.parametrize(("length", "stride", "history"), [(5, 4, 3), (7, 3, 0), (12, 4, 5), (3, 1, 2)])
def test_unroll_k_refers_to_steps_from_k_times_stride_those_before_it_and_their_version_and_ends(
    length, stride, history
):
    num_envs = 3
    cursor, pool = make(num_envs, length, stride, history=history)
    rng = np.random.default_rng(0)
    written = {}  # the environment and the step at a place
    steps = [[] for _ in range(num_envs)]  # the version and whether an episode ends
    finished_count = np.zeros(num_envs, int)
    for turn in range(200):
        cursor.version = turn
        ids = rng.permutation(num_envs)[: rng.integers(1, num_envs + 1)]
        last = rng.random(len(ids)) < 0.3
        expects = cursor.finishing(ids)
        writes, finished = cursor.advance(ids, last)
        assert expects == bool(len(finished))
        for b, env in enumerate(ids):
            step = len(steps[env])
            assert (writes.opened[b] != cursor.spare) == (step % stride == 0)
            written[writes.places[b]] = (env, step)
            steps[env].append((turn, last[b]))
        for slot in finished:
            env, first = written[pool.places[slot, history]]
            assert first == finished_count[env] * stride
            for step, place in enumerate(pool.places[slot], start=first - history):
                assert (place == pool.num_places) == (step < 0)
                assert step < 0 or written[place] == (env, step)
            versions, ends = zip(*steps[env][first : first + stride], strict=True)
            assert pool.versions[slot] == versions[0]
            assert pool.ends[slot] == sum(ends), "without those that the next unroll repeats"
            finished_count[env] += 1
        pool.release(finished)
    for env in range(num_envs):
        assert finished_count[env] == (len(steps[env]) - length) // stride + 1 > 0
    assert len(pool) >= num_envs, "no more are held than are in progress"
    cursor.restart(np.arange(num_envs))
    assert (len(pool), pool.num_free_places) == (pool.num_slots, pool.num_places)


def test_a_restart_discards_the_unrolls_in_progress_of_that_environment_only():
    cursor, pool = make(2, length=4, stride=3)
    ids = np.array([0, 1])
    for _ in range(3):
        cursor.advance(ids)
    cursor.restart(np.array([0]))
    assert cursor.discarded_unrolls == 1
    _, finished = cursor.advance(ids)
    assert len(finished) == 1, "environment 1 finishes at its fourth step, environment 0 started over"
    assert cursor.discarded_unrolls == 1
    assert pool.num_slots - len(pool) == 2 + len(finished)


def test_staggered_environments_finish_evenly():
    num_envs, stride = 8, 4
    cursor, pool = make(num_envs, stride + 1, stride, stagger=True)
    counts = []
    for _ in range(20):
        _, finished = cursor.advance(np.arange(num_envs))
        counts.append(len(finished))
        pool.release(finished)
    assert counts[8:] == [2] * 12
    assert cursor.unrecorded_steps == 2 * (0 + 1 + 2 + 3)
    assert cursor.discarded_unrolls == 0


def test_environments_that_are_not_recorded_hold_no_slot():
    cursor, pool = make(2, length=3, stride=2, stagger=True, recorded=np.array([True, False]))
    for _ in range(10):
        assert not cursor.finishing(np.array([1]))
        writes, finished = cursor.advance(np.array([1, 0]))
        assert writes.places[0] == pool.num_places
        pool.release(finished)
    assert pool.num_slots - len(pool) == 1
    assert cursor.unrecorded_steps == 0, "the first waits for nothing, and the second is never recorded"
