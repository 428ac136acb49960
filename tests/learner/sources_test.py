"""Batches from the queue: straight, through the replay at an exact ratio, and joined from several devices."""

import dataclasses
import io
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.buffers import snapshot
from seed_rl.buffers.samplers import PRIORITY_FLOOR
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import Unrolls, UnrollStore
from seed_rl.experiment import Experiment, Replay
from seed_rl.experiment.sizes import INSERT_AT_MOST, Sizes
from seed_rl.learner.sources import Batch, JoinedSource, new_source
from seed_rl.specs import CannotAct
from seed_rl.system.archives import Archive, BadArchive, writing
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig
from tests.support.deadlines import within

LENGTH, QUEUE = 2, 3
EXPERIMENT = Experiment(env=Counting(), agent=CountingAgentConfig())
AGENT = EXPERIMENT.build_agent()
SIZES = Sizes.of(EXPERIMENT, AGENT)


class RewardPriorities:
    """Stands for an agent: an unroll's initial priority is the reward of its step 0 over `divisor`."""

    def __init__(self, divisor):
        self.divisor = divisor

    def initial_priorities(self, unroll):
        assert unroll.env_output.observation == ()
        assert unroll.initial_state == ()
        return unroll.env_output.reward[0] / self.divisor


class Rig:
    """A source, and in the place of acting `produce`, whose n-th unroll (from 1) has n everywhere and version 10 n."""

    def __init__(self, batch_size, replay=None, free_slots=6, divisor=1.0, outside=0, stored=None):
        capacity, min_size = (0, 0) if replay is None else (replay.capacity, replay.min_size)
        num_slots = capacity + free_slots + INSERT_AT_MOST
        sizes = {"batch_size": batch_size, "replay_capacity": capacity, "replay_min_size": min_size}
        sizes = dataclasses.replace(SIZES, **sizes, num_slots=num_slots, places_outside=LENGTH * outside)
        num_places = LENGTH * (stored or num_slots)
        self.store = UnrollStore(AGENT.step_spec, num_slots, num_places)
        self.pool, self.queue = SlotPool(num_slots, num_places, LENGTH), UnrollQueue(QUEUE)
        self.produced = 0
        unrolls, read = Unrolls(self.store, self.pool, self.queue), lambda addresses: [self.store.read(addresses)]
        agent = AGENT if divisor is None else RewardPriorities(divisor)
        self.source = new_source(unrolls, read, sizes, agent, replay, seed=0)

    def produce(self, count=1):
        for _ in range(count):
            self.produced += 1
            slot, places = self.pool.acquire(1, version=10 * self.produced), self.pool.acquire_places(LENGTH)
            for rows, at in (self.store.states, slot), *((rows, places) for rows in self.store.steps):
                rows.set(at, [np.full_like(array, self.produced) for array in rows.get(at)])
            self.pool.finish(slot, places[None])
            self.pool.release_places(places)
            self.queue.put(slot)

    def produce_for_ever(self):
        """Until the queue is closed; waits for room as acting does."""
        while self.queue.wait_for_room():
            self.produce()

    def drawn(self, timeout=0):
        """The next batch, after as many pieces as it needs."""
        while True:
            taken = self.source.taken
            batch = self.source.next(timeout)
            if batch is not None or self.source.taken == taken:
                return batch

    def saved(self):
        """The file of the replay's content."""
        file = io.BytesIO()
        self.source.save(file)
        return file

    def content(self, slots):
        """All arrays of the unrolls in some slots, [n, ...] and [n, L, ...]."""
        steps = [array for rows in self.store.steps for array in rows.get(self.pool.places[slots])]
        return [*self.store.states.get(slots), *steps]

    def inside(self):
        """The content of the replay, oldest first: (number, version, priority) of each unroll."""
        saved = Archive(self.saved())
        numbers, *others = self.content(saved["slots"])
        for rows in others:
            assert (numbers.astype(rows.dtype) == rows.T).all()
        return list(zip(numbers, saved["versions"], saved["priorities"], strict=True))


def numbers(batch):
    """The numbers of a batch's unrolls."""
    assert (batch.parts[0].action[0] == batch.parts[0].action[1]).numpy().all()
    return batch.parts[0].action[0].numpy()


def test_fifo_takes_whole_batches_in_order_and_frees_their_slots():
    rig = Rig(2)
    free = len(rig.pool)
    rig.produce(1)
    assert rig.source.next(0) is None
    assert len(rig.queue) == 1, "a part of a batch stays where it is"
    rig.produce(2)
    rig.pool.ends[:] = 3
    batch = rig.source.next(0)
    assert rig.source.ends == 2 * 3
    np.testing.assert_array_equal(numbers(batch), [1, 2])
    np.testing.assert_array_equal(batch.versions, [10, 20])
    assert batch.importance_weights.tolist() == [1, 1]
    assert rig.source.taken == 2
    assert len(rig.pool) == free - 1
    assert not rig.source.snapshot


def test_a_sampler_that_draws_too_few_is_refused():
    rig = Rig(4, Replay(capacity=20, min_size=6, sampler="uniform"))
    sample = rig.source.sampler.sample
    rig.source.sampler.sample = lambda count: sample(count - 1)
    rig.produce(2)
    rig.drawn()
    rig.produce(4)
    with pytest.raises(CannotAct, match=r"^UniformSampler.sample must draw 4 sequences, but came with \[3\] slots"):
        rig.drawn()


@pytest.mark.parametrize(("batch_size", "ratio", "actors_are_faster"), [(4, 0.75, True), (5, 2.3, False)])
def test_the_ratio_is_exact_whether_acting_or_learning_is_faster(batch_size, ratio, actors_are_faster):
    rig = Rig(batch_size, Replay(capacity=20, min_size=6, ratio=ratio, sampler="uniform"))
    updates, free = 40, len(rig.pool)
    actors = threading.Thread(target=rig.produce_for_ever)
    if actors_are_faster:
        actors.start()
    for update in range(updates):
        due = 6 + int(update * batch_size / ratio)
        if actors_are_faster:
            batch = rig.drawn(timeout=within(30))
            assert len(rig.queue) <= QUEUE, "acting is held up"
        else:  # each unroll comes only when the learner has found that there is none
            while (batch := rig.drawn()) is None:
                assert rig.source.taken < due
                assert update or rig.source.taken in (0, 3), "in pieces of fixed sizes"
                rig.produce()
        np.testing.assert_array_equal(batch.versions, 10 * numbers(batch))
        assert rig.source.taken == due, "no more and no fewer were taken"
        assert rig.source.gauges()["replay/size"] == min(due, 20)
        rig.source.write_back(np.ones(batch_size, np.float32))
    drawn, inserted = updates * batch_size, rig.source.taken - 6
    assert rig.source.gauges()["replay/ratio"] == drawn / inserted
    if actors_are_faster:
        rig.queue.close()
        actors.join(within(30))
    assert len(rig.pool) == free - min(rig.source.taken, 20) - len(rig.queue), "evicted slots are free again"


def test_old_unrolls_leave_and_new_ones_are_drawn_by_priority():
    rig = Rig(1000, Replay(capacity=3, min_size=3, ratio=1000.0, priority_exponent=1.0, importance_exponent=0.5))
    rig.produce(3)
    batch = rig.source.next(0)
    expected = (numbers(batch) / 6 * 3) ** -0.5
    np.testing.assert_allclose(batch.importance_weights, expected / expected.max(), rtol=1e-5)

    rig.source.write_back(np.where(numbers(batch) == 3, 1e6, 1.0).astype(np.float32))
    rig.produce(1)
    assert set(numbers(rig.source.next(0))) == {3}, "the priority written back rules"
    rig.source.write_back(np.zeros(0, np.float32))  # of an agent that gives none
    rig.produce(1)
    assert set(numbers(rig.source.next(0))) == {3}
    rig.produce(1)
    assert 3 not in numbers(rig.source.next(0)), "evicted"


def test_the_oldest_leave_a_replay_that_leaves_acting_too_few_places():
    rig = Rig(1, Replay(capacity=8, min_size=1, ratio=0.125), stored=13, outside=8)
    for count, inside in ((1, [1]), (3, [1, 2, 3, 4]), (3, [3, 4, 5, 6, 7]), (2, [5, 6, 7, 8, 9])):
        rig.produce(count)
        rig.source.next(0)
        assert [number for number, *_ in rig.inside()] == inside


def test_without_initial_priorities_new_unrolls_get_the_largest_one():
    rig = Rig(4, Replay(capacity=8, min_size=4, ratio=4.0), divisor=None)
    rig.produce(4)
    rig.drawn()
    assert [priority for *_, priority in rig.inside()] == [1.0] * 4
    for largest in (0.5, 30.0):
        rig.source.sampler.update(rig.source.sampler.slots, np.linspace(0.1, largest, len(rig.inside())))
        rig.produce()
        rig.drawn()
        assert rig.inside()[-1][2] == largest


def test_a_small_capacity_is_filled_piece_by_piece():
    rig = Rig(8, Replay(capacity=2, min_size=2, ratio=0.5), free_slots=60)
    rig.produce(2)
    assert rig.source.next(0) is not None
    rig.produce(16)
    while (batch := rig.source.next(0)) is None:
        assert rig.source.taken % 2 == 0, "as many at a time as fit"
    assert set(numbers(batch)) <= {17, 18}


def test_sequences_whose_priorities_are_not_finite_get_the_lowest_one():
    rig = Rig(4, Replay(capacity=8, min_size=4), divisor=0.0)
    lowest = [(number, 10 * number, PRIORITY_FLOOR) for number in (1, 2, 3, 4)]
    rig.produce(4)
    assert rig.drawn() is not None
    assert rig.inside() == lowest
    rig.source.write_back(np.array([np.nan, np.inf, -np.inf, np.nan], np.float32))
    assert rig.inside() == lowest


SAVED = Replay(capacity=8, min_size=4, ratio=2.0, snapshot=True)


def test_a_snapshot_continues_with_the_same_data_and_ratio(monkeypatch):
    rig, resumed = Rig(4, SAVED), Rig(4, SAVED)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", 12)  # three states
    rig.produce(4)
    for _ in range(4):
        rig.drawn()
        rig.source.write_back(np.array([0.5, 2.0, 1.0, 3.0], np.float32))
        rig.produce(2)
    resumed.produce(5)  # so that other slots are free
    others = resumed.queue.take(5, 0)
    before, free = resumed.content(others), len(resumed.pool)
    assert rig.source.snapshot is rig.source
    resumed.source.restore(rig.saved())
    assert len(resumed.pool) == free - 8
    assert len(rig.inside()) == 8
    assert resumed.inside() == rig.inside()
    np.testing.assert_equal(resumed.content(others), before)
    assert resumed.source.taken == rig.source.taken
    assert resumed.source.gauges() == rig.source.gauges()
    assert resumed.source.next(0) is None, "the two unrolls that are due were in the queue, and are gone"
    resumed.produced = rig.produced - 2
    resumed.produce(2)
    assert rig.source.next(0) is not None
    assert resumed.source.next(0) is not None
    assert resumed.inside() == rig.inside()


def test_the_oldest_leave_a_snapshot_whose_run_continues_with_fewer_places():
    rig = Rig(1, dataclasses.replace(SAVED, min_size=8))
    rig.produce(8)
    rig.drawn()
    fewer, too_few = (Rig(1, SAVED, stored=stored, outside=8) for stored in (13, 7))
    fewer.source.restore(rig.saved())
    assert [number for number, *_ in fewer.inside()] == [4, 5, 6, 7, 8]
    with pytest.raises(BadArchive, match="it has 16 steps, and there is room for 14 with these settings"):
        too_few.source.restore(rig.saved())


ODD_SNAPSHOTS = {
    "no slots": {"slots": None},
    "more slots than there are": {"slots": np.arange(99)},
    "counts that are none": {"counts": np.array([np.nan, 1])},
    "another generator": {"generator": np.frombuffer(b'{"bit_generator": "MT19937"}', np.uint8)},
    "other unrolls": {"unrolls/steps/000000/001": np.zeros(2)},
    "fewer tensors": {"unrolls/steps/000000/001": None},
    "more unrolls": {"unrolls/states/000001/000": np.zeros(4)},
    "no places": {"unrolls/places": None},
    "places that are none": {"unrolls/places": np.full((4, LENGTH), -2, np.int32)},
    "more places than there are": {"unrolls/places": np.full((4, LENGTH), 10**9, np.int32)},
}


@pytest.fixture(scope="module")
def saved():
    """The arrays of a snapshot of four unrolls."""
    rig = Rig(4, SAVED)
    rig.produce(4)
    rig.drawn()
    return dict(Archive(rig.saved()))


@pytest.mark.parametrize("changes", ODD_SNAPSHOTS.values(), ids=ODD_SNAPSHOTS)
def test_a_file_that_is_no_snapshot_is_refused(changes, saved):
    with writing(odd := io.BytesIO()) as add:
        for name, array in (saved | changes).items():
            if array is not None:
                add(name, array)
    with pytest.raises(BadArchive, match="it (is not of such a replay: |is of an earlier version|has 1,000,000,001 )"):
        Rig(4, SAVED).source.restore(odd)


def test_weights_from_several_replays_are_of_one_batch():
    def source(scale):
        batch = Batch(["part"], np.zeros(2), np.array([1, 0.5], np.float32), scale)
        return SimpleNamespace(next=lambda timeout: batch, taken=2, ends=0)

    joined = JoinedSource([source(0.5), source(2.0)])
    assert joined.next(0) is None
    assert joined.next(0).importance_weights.tolist() == [0.25, 0.125, 1, 0.5]


def test_a_joined_batch_is_made_of_one_of_each_device_in_order():
    first, second = (Rig(1, Replay(capacity=1, min_size=1, ratio=1.0)) for _ in range(2))
    joined = JoinedSource([first.source, second.source])
    second.produced = 100
    second.produce()
    assert joined.next(0) is None
    assert joined.taken == 0
    first.produce()
    for number in (1, 2):
        first.pool.ends[:], second.pool.ends[:] = 2, 3
        assert joined.next(0) is None
        assert joined.taken == 2 * number - 1, "the unroll of a batch that waits for the other device counts"
        together = joined.next(0)
        assert [part.action[0, 0] for part in together.parts] == [number, 100 + number]
        assert together.versions.tolist() == [10 * number, 1000 + 10 * number]
        assert together.importance_weights.tolist() == [1, 1]
        assert joined.ends == 5 * number
        joined.write_back(np.array([5, 7], np.float32))
        assert [rig.inside()[0][-1] for rig in (first, second)] == [5, 7], "to the replay that each is from"
        if number == 1:
            assert joined.gauges() == {"replay/size": 2.0}
            first.produce()
            second.produce()
    assert joined.gauges() == {"replay/size": 2.0, "replay/ratio": 2.0}, "sizes add up, and ratios do not"
    assert joined.snapshot is None
