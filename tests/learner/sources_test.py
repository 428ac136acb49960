"""Batches from the queue: straight, and through the replay at an exact ratio."""

import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers.prioritized_replay import PrioritizedReplay
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.snapshot import BadSnapshot
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.experiment import Replay
from seed_rl.learner.ending import Diverged
from seed_rl.learner.sources import FifoSource, Finished, ReplaySource
from seed_rl.types import EnvOutput, Unroll

LENGTH, QUEUE = 2, 3
SPEC = Unroll(
    (),
    tf.TensorSpec([], tf.int32),
    EnvOutput(tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.bool), tf.TensorSpec([2], tf.uint8)),
    tf.TensorSpec([], tf.int32),
    (),
)


class RewardPriorities:
    """Stands for the agent: an unroll's initial priority is the reward of its step 0."""

    def initial_priorities(self, unroll):
        assert unroll.env_output.observation == ()
        assert unroll.initial_state == ()
        return unroll.env_output.reward[0]


class Rig:
    """A source, and in the place of acting `produce`, whose n-th unroll has reward n + 1 and version 10 n."""

    def __init__(self, batch_size, replay=None, free_slots=6):
        capacity = 0 if replay is None else replay.capacity
        self.pool = SlotPool(capacity + free_slots + ReplaySource.INSERT_AT_MOST)
        self.store = UnrollStore(SPEC, LENGTH, self.pool.num_slots)
        self.queue = UnrollQueue(QUEUE)
        self.versions = np.zeros(self.pool.num_slots, np.int64)
        self.produced = 0
        finished = Finished(self.store, self.read, self.pool, self.queue, self.versions)
        if replay is None:
            self.source = FifoSource(finished, batch_size)
        else:
            self.replay = PrioritizedReplay(
                replay.capacity,
                self.pool.num_slots,
                priority_exponent=replay.priority_exponent,
                importance_exponent=replay.importance_exponent,
                seed=0,
            )
            self.source = ReplaySource(
                finished, batch_size=batch_size, replay=self.replay, agent=RewardPriorities(), config=replay
            )

    def read(self, slots):
        return [self.store.read(slots)]

    def produce(self, count=1):
        for _ in range(count):
            slot = self.pool.acquire(1)
            self.produced += 1
            number = tf.constant([self.produced])
            for position in range(LENGTH):
                where = StepWrites(tf.constant([slot]), tf.constant([[position]]), tf.constant(slot))
                env_output = EnvOutput(tf.cast(number, tf.float32), tf.constant([False]), tf.zeros([1, 2], tf.uint8))
                self.store.write(where, Unroll((), number, env_output, number, ()))
            self.versions[slot] = 10 * (self.produced - 1)
            self.queue.put(slot)

    def produce_for_ever(self):
        """Until the queue is closed; waits for room as acting does."""
        while self.queue.wait_for_room():
            self.produce()


def numbers(batch):
    """Which unrolls a batch is made of."""
    assert (batch.parts[0].action[0] == batch.parts[0].action[1]).numpy().all()
    return batch.parts[0].action[0].numpy()


def test_fifo_takes_whole_batches_in_order_and_frees_their_slots():
    rig = Rig(2)
    free = len(rig.pool)
    rig.produce(1)
    assert rig.source.next(0) is None
    assert len(rig.queue) == 1, "a part of a batch stays where it is"
    rig.produce(2)
    batch = rig.source.next(0)
    np.testing.assert_array_equal(numbers(batch), [1, 2])
    np.testing.assert_array_equal(batch.versions, [0, 10])
    assert batch.importance_weights is None
    assert rig.source.taken == 2
    assert len(rig.pool) == free - 1
    assert not rig.source.snapshot


def test_nothing_is_drawn_before_min_size():
    rig = Rig(4, Replay(capacity=10, min_size=5))
    for expected in range(5):
        assert rig.source.next(0) is None
        assert rig.source.taken == len(rig.source) == expected
        rig.produce()
    batch = rig.source.next(0)
    assert set(numbers(batch)) <= {1, 2, 3, 4, 5}
    np.testing.assert_array_equal(batch.versions, 10 * (numbers(batch) - 1))


@pytest.mark.parametrize(("batch_size", "ratio"), [(4, 4.0), (4, 0.75), (3, 10.0), (5, 2.3), (2, 1.0)])
@pytest.mark.parametrize("actors_are_faster", [True, False])
def test_the_ratio_is_exact_whoever_is_faster(batch_size, ratio, actors_are_faster):
    config = Replay(capacity=20, min_size=6, ratio=ratio)
    rig = Rig(batch_size, config)
    updates, free = 60, len(rig.pool)
    if actors_are_faster:
        actors = threading.Thread(target=rig.produce_for_ever)
        actors.start()
    for update in range(updates):
        due = 6 + int(update * batch_size / ratio)
        if actors_are_faster:
            batch = rig.source.next(timeout=30)
        else:  # each unroll comes only when the learner has found that there is none
            while (batch := rig.source.next(0)) is None:
                assert rig.source.taken < due
                rig.produce()
        assert batch is not None
        assert rig.source.taken == due, "no more and no fewer were taken"
        assert len(rig.source) == min(due, 20)
        if actors_are_faster:
            assert len(rig.queue) <= QUEUE, "acting is held up"
        rig.source.write_back(np.ones(batch_size, np.float32))
    drawn, inserted = updates * batch_size, rig.source.taken - 6
    assert drawn / ratio - batch_size / ratio - 1 < inserted <= drawn / ratio
    assert rig.source.gauges() == {"replay/size": len(rig.source), "replay/ratio": drawn / inserted}
    if actors_are_faster:
        rig.queue.close()
        actors.join(30)
        assert not actors.is_alive()
    assert len(rig.pool) == free - len(rig.source) - len(rig.queue), "evicted slots are free again"


def test_old_unrolls_leave_and_new_ones_are_drawn_by_priority():
    rig = Rig(1000, Replay(capacity=3, min_size=3, ratio=1000.0, priority_exponent=1.0, importance_exponent=0.5))
    rig.produce(3)
    batch = rig.source.next(0)
    counts = np.bincount(numbers(batch), minlength=4)
    np.testing.assert_allclose(counts[1:] / 1000, np.array([1, 2, 3]) / 6, atol=0.06)
    probabilities = numbers(batch) / 6
    expected = (probabilities * 3) ** -0.5
    np.testing.assert_allclose(batch.importance_weights, expected / expected.max(), rtol=1e-5)

    rig.source.write_back(np.where(numbers(batch) == 3, 1e6, 1.0).astype(np.float32))
    rig.produce(1)
    assert set(numbers(rig.source.next(0))) == {3}, "the priority written back rules"
    rig.source.write_back(np.ones(1000, np.float32))
    rig.produce(2)
    assert rig.source.next(0) is not None
    rig.source.write_back(np.ones(1000, np.float32))
    rig.produce(1)
    assert 1 not in numbers(rig.source.next(0))
    assert rig.source.taken == 6


def test_a_small_capacity_is_filled_piece_by_piece():
    rig = Rig(8, Replay(capacity=2, min_size=2, ratio=0.5), free_slots=60)
    rig.produce(2)
    assert rig.source.next(0) is not None
    rig.produce(16)
    while (batch := rig.source.next(0)) is None:
        assert rig.source.taken % 2 == 0, "never more at a time than fit"
    assert set(numbers(batch)) <= {17, 18}


def saved(rig):
    file = io.BytesIO()
    rig.source.save(file)
    return io.BytesIO(file.getvalue())


def inside(rig):
    """What is in the replay, oldest first: (number, version, priority) of each unroll."""
    state = rig.replay.get_state()
    slots = state["slots"]
    return list(
        zip(rig.store.read(tf.constant(slots)).action[0].numpy(), rig.versions[slots], state["priorities"], strict=True)
    )


def test_a_snapshot_continues_with_the_same_data_and_ratio():
    config = Replay(capacity=8, min_size=4, ratio=2.0, snapshot=True)
    rig, resumed = Rig(4, config), Rig(4, config)
    rig.produce(4)
    for _ in range(4):
        rig.source.next(0)
        rig.source.write_back(np.array([0.5, 2.0, 1.0, 3.0], np.float32))
        rig.produce(2)
    assert rig.source.snapshot
    resumed.produce(5)  # so that other slots are free
    resumed.queue.take(5, 0)
    free = len(resumed.pool)
    resumed.source.restore(saved(rig))
    assert len(resumed.pool) == free - len(rig.source)
    assert len(inside(rig)) == 8
    assert inside(resumed) == inside(rig)
    assert resumed.source.taken == rig.source.taken
    assert resumed.source.gauges() == rig.source.gauges()
    assert resumed.source.next(0) is None, "the two unrolls that are due were in the queue, and are gone"
    resumed.produced = rig.produced - 2
    resumed.produce(2)
    assert rig.source.next(0) is not None
    assert resumed.source.next(0) is not None
    assert [number for number, *_ in inside(resumed)] == [number for number, *_ in inside(rig)]


def test_a_file_that_is_no_snapshot_is_refused():
    rig = Rig(4, Replay(capacity=8, min_size=4, snapshot=True))
    with pytest.raises(BadSnapshot, match="can't be read"):
        rig.source.restore(io.BytesIO(b"nonsense"))
    arrays = io.BytesIO()
    np.savez(arrays, a=np.zeros(2))
    with pytest.raises(BadSnapshot, match="not of such a replay: 'counts'"):
        rig.source.restore(io.BytesIO(arrays.getvalue()))


def test_a_slow_fill_does_not_outlast_its_timeout():
    rig = Rig(4, Replay(capacity=100, min_size=90), free_slots=60)
    rig.produce(50)
    assert rig.source.next(0) is None
    assert rig.source.taken == 32, "one piece, then the caller may look at the clock"


def test_values_that_are_not_finite_end_the_run_with_a_sentence():
    rig = Rig(4, Replay(capacity=8, min_size=4))
    rig.source._agent = SimpleNamespace(initial_priorities=lambda unroll: unroll.env_output.reward[0] / 0.0)
    rig.produce(4)
    with pytest.raises(Diverged, match="not finite"):
        rig.source.next(0)
