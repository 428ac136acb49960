import numpy as np
import pytest

from seed_rl.buffers.slots import SlotPool
from seed_rl.inference.cursor import UnrollCursor


def make(num_envs, length, stride, stagger=False, recorded=None):
    slots = UnrollCursor.slots_in_progress(num_envs, length, stride) + 2 * num_envs
    pool = SlotPool(slots)
    recorded = np.ones(num_envs, bool) if recorded is None else recorded
    cursor = UnrollCursor(recorded, length, stride, pool, stagger)
    cursor.restart(np.arange(num_envs))
    return cursor, pool


@pytest.mark.parametrize(("length", "stride"), [(2, 1), (5, 4), (6, 4), (7, 3), (9, 4), (12, 4), (3, 1)])
def test_unroll_k_holds_steps_from_k_times_stride(length, stride):
    num_envs = 3
    cursor, pool = make(num_envs, length, stride)
    rng = np.random.default_rng(0)
    contents = {slot: {} for slot in range(pool.num_slots)}
    steps = np.zeros(num_envs, int)
    finished_count = np.zeros(num_envs, int)
    for _ in range(200):
        ids = rng.permutation(num_envs)[: rng.integers(1, num_envs + 1)]
        expects = cursor.finishing(ids)
        plan = cursor.advance(ids)
        assert expects == bool(len(plan.finished))
        for d in range(cursor.depth):
            for b, env in enumerate(ids):
                if plan.slots[d, b] != cursor.spare:
                    contents[plan.slots[d, b]][plan.positions[d, b]] = (env, steps[env])
        for b, env in enumerate(ids):
            assert (plan.opened[b] != cursor.spare) == (steps[env] % stride == 0)
        steps[ids] += 1
        for slot in plan.finished:
            env = contents[slot][0][0]
            first = finished_count[env] * stride
            assert contents.pop(slot) == {p: (env, first + p) for p in range(length)}
            contents[slot] = {}
            finished_count[env] += 1
        pool.release(plan.finished)
    for env in range(num_envs):
        assert finished_count[env] == max(0, (steps[env] - length) // stride + 1) > 0
    assert pool.num_slots - len(pool) <= UnrollCursor.slots_in_progress(num_envs, length, stride)


def test_a_restart_discards_what_is_in_progress_of_that_environment_only():
    cursor, pool = make(2, length=4, stride=3)
    ids = np.array([0, 1])
    for _ in range(3):
        cursor.advance(ids)
    cursor.restart(np.array([0]))
    assert cursor.discarded_unrolls == 1
    finished = cursor.advance(ids).finished
    assert len(finished) == 1, "environment 1 finishes at its fourth step, environment 0 began anew"
    assert cursor.discarded_unrolls == 1
    assert pool.num_slots - len(pool) == 2 + len(finished)


def test_staggered_environments_finish_evenly():
    num_envs, stride = 8, 4
    cursor, pool = make(num_envs, stride + 1, stride, stagger=True)
    finished = []
    for _ in range(20):
        plan = cursor.advance(np.arange(num_envs))
        finished.append(len(plan.finished))
        pool.release(plan.finished)
    assert finished[8:] == [2] * 12
    assert cursor.unrecorded_steps == 2 * (0 + 1 + 2 + 3)
    assert cursor.discarded_unrolls == 0


def test_environments_that_are_not_recorded_hold_no_slot():
    cursor, pool = make(2, length=3, stride=2, recorded=np.array([True, False]))
    for _ in range(10):
        plan = cursor.advance(np.array([1, 0]))
        assert (plan.slots[:, 0] == cursor.spare).all()
        pool.release(plan.finished)
    assert pool.num_slots - len(pool) == 1


def test_versions_are_those_of_the_first_step():
    cursor, _ = make(1, length=3, stride=2)
    cursor.version = 5
    slot = cursor.advance(np.array([0])).opened[0]
    cursor.version = 9
    cursor.advance(np.array([0]))
    assert cursor.slot_versions[slot] == 5
