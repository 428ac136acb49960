import numpy as np
import pytest

from seed_rl.buffers.prioritized_replay import PRIORITY_FLOOR, PrioritizedReplay


class NaiveReplay:
    """The same, as a list of [slot, priority], oldest first."""

    def __init__(self, capacity, alpha, beta):
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self.inside = []

    def insert(self, slots, priorities):
        evicted = []
        for slot, priority in zip(slots, priorities, strict=True):
            if len(self.inside) == self.capacity:
                evicted.append(self.inside.pop(0)[0])
            self.inside.append([slot, max(priority, 1e-6)])
        return evicted

    def update(self, slots, priorities):
        for slot, priority in zip(slots, priorities, strict=True):
            next(entry for entry in self.inside if entry[0] == slot)[1] = max(priority, 1e-6)

    def probabilities(self):
        powers = {slot: priority**self.alpha for slot, priority in self.inside}
        return {slot: power / sum(powers.values()) for slot, power in powers.items()}

    def weights(self, slots):
        probabilities = self.probabilities()
        weights = [(len(self.inside) * probabilities[slot]) ** -self.beta for slot in slots]
        return [weight / max(weights) for weight in weights]


@pytest.mark.parametrize(("capacity", "alpha", "beta"), [(1, 0.9, 0.6), (7, 0.9, 0.6), (16, 1.0, 1.0), (16, 0.0, 0.0)])
def test_does_what_a_naive_twin_does(capacity, alpha, beta):
    rng = np.random.default_rng(capacity)
    num_slots = capacity + 5
    replay = PrioritizedReplay(capacity, num_slots, priority_exponent=alpha, importance_exponent=beta, seed=3)
    twin = NaiveReplay(capacity, alpha, beta)
    free = list(range(num_slots))
    num_evicted = 0
    for _ in range(400):
        rng.shuffle(free)
        count = rng.integers(min(len(free), capacity) + 1)
        slots, free = free[:count], free[count:]
        priorities = rng.exponential(size=count) * (rng.random(count) < 0.8)
        evicted = replay.insert(np.array(slots, np.int32), priorities)
        assert evicted.dtype == np.int32
        assert evicted.tolist() == twin.insert(slots, priorities)
        free.extend(evicted.tolist())
        num_evicted += len(evicted)
        assert len(replay) == len(twin.inside)
        if not twin.inside:
            continue
        sample = replay.sample(12)
        probabilities = twin.probabilities()
        np.testing.assert_allclose(sample.probabilities, [probabilities[slot] for slot in sample.slots], rtol=1e-12)
        np.testing.assert_allclose(sample.weights, twin.weights(sample.slots), rtol=1e-6)
        priorities = rng.exponential(size=12) * (rng.random(12) < 0.8)
        replay.update(sample.slots, priorities)
        twin.update(sample.slots, priorities)
        state = replay.get_state()
        assert list(zip(state["slots"], state["priorities"], strict=True)) == [tuple(entry) for entry in twin.inside]
    assert num_evicted > 100


def test_evicts_in_the_order_of_insertion():
    replay = PrioritizedReplay(4, 10, seed=0)
    assert replay.insert(np.array([5, 2, 9]), np.ones(3)).tolist() == []
    replay.update(np.array([5]), np.array([100.0]))  # neither use nor priority keeps it longer
    assert replay.insert(np.array([0, 1, 3]), np.ones(3)).tolist() == [5, 2]
    assert replay.insert(np.array([5, 2, 4, 6]), np.ones(4)).tolist() == [9, 0, 1, 3]
    assert replay.insert(np.array([7]), np.ones(1)).tolist() == [5]
    assert replay.get_state()["slots"].tolist() == [2, 4, 6, 7]


def test_an_evicted_slot_is_not_drawn():
    replay = PrioritizedReplay(2, 4, priority_exponent=0.0, seed=0)
    replay.insert(np.array([0, 1]), np.array([1000.0, 1.0]))
    replay.insert(np.array([2]), np.array([1.0]))
    assert set(replay.sample(200).slots.tolist()) == {1, 2}


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 1.0])
def test_draws_as_often_as_the_formula_says(alpha):
    rng = np.random.default_rng(1)
    slots, priorities = rng.permutation(30)[:20], rng.exponential(size=20)
    replay = PrioritizedReplay(20, 30, priority_exponent=alpha, seed=2)
    replay.insert(slots, priorities)
    draws = 200_000
    counts = np.bincount(replay.sample(draws).slots, minlength=30)
    expected = np.zeros(30)
    expected[slots] = draws * priorities**alpha / np.sum(priorities**alpha)
    assert np.all(counts[expected == 0] == 0)
    inside = expected > 0
    # Pearson's statistic has 19 degrees of freedom; it exceeds 43.8 once in a thousand seeds.
    assert np.sum((counts - expected)[inside] ** 2 / expected[inside]) < 43.8


def test_draws_are_independent():
    replay = PrioritizedReplay(2, 2, priority_exponent=1.0, seed=0)
    replay.insert(np.array([0, 1]), np.array([3.0, 1.0]))
    slots = np.stack([replay.sample(2).slots for _ in range(20_000)])
    pairs = np.bincount(2 * slots[:, 0] + slots[:, 1], minlength=4)
    expected = 20_000 * np.array([9, 3, 3, 1]) / 16
    # Pearson's statistic has 3 degrees of freedom; it exceeds 16.3 once in a thousand seeds.
    assert np.sum((pairs - expected) ** 2 / expected) < 16.3


def test_weights_are_those_of_the_formula():
    replay = PrioritizedReplay(8, 8, priority_exponent=0.5, importance_exponent=0.25, seed=4)
    priorities = np.array([0.01, 1.0, 16.0])
    replay.insert(np.array([6, 1, 3]), priorities)
    probabilities = dict(zip((6, 1, 3), np.array([0.1, 1.0, 4.0]) / 5.1, strict=True))
    for _ in range(20):
        sample = replay.sample(5)
        weights = np.array([(3 * probabilities[slot]) ** -0.25 for slot in sample.slots])
        np.testing.assert_allclose(sample.probabilities, [probabilities[slot] for slot in sample.slots], rtol=1e-12)
        np.testing.assert_allclose(sample.weights, weights / weights.max(), rtol=1e-6)
        assert sample.weights.max() == 1
        assert (sample.slots.dtype, sample.probabilities.dtype, sample.weights.dtype) == (
            np.int32,
            np.float64,
            np.float32,
        )


def test_the_weights_of_extreme_priorities_are_finite():
    replay = PrioritizedReplay(2, 2, priority_exponent=1.0, importance_exponent=1.0, seed=0)
    replay.insert(np.array([0, 1]), np.array([0.0, float(np.finfo(np.float32).max)]))
    assert replay.sample(10).weights.tolist() == [1.0] * 10


def test_a_priority_of_zero_counts_as_the_floor():
    replay = PrioritizedReplay(2, 2, priority_exponent=1.0, seed=0)
    replay.insert(np.array([0, 1]), np.array([0.0, 3 * PRIORITY_FLOOR]))
    sample = replay.sample(100)
    assert set(sample.slots.tolist()) == {0, 1}
    np.testing.assert_allclose(sample.probabilities, np.where(sample.slots == 0, 0.25, 0.75), rtol=1e-12)


def test_of_a_slot_updated_twice_the_last_priority_counts():
    replay = PrioritizedReplay(3, 3, seed=0)
    replay.insert(np.array([0, 1]), np.ones(2))
    replay.update(np.array([1, 0, 1]), np.array([5.0, 6.0, 7.0]))
    assert replay.get_state()["priorities"].tolist() == [6.0, 7.0]


def saved_and_loaded(state, path):
    np.savez(path, allow_pickle=False, **state)
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def test_state_brings_back_order_priorities_and_draws(tmp_path):
    replay = PrioritizedReplay(6, 9, seed=0)
    replay.insert(np.array([8, 7, 6, 5]), np.array([1.0, 2.0, 3.0, 4.0]))
    replay.insert(np.array([0, 1, 2, 3]), np.array([5.0, 6.0, 7.0, 0.0]))  # the ring has wrapped
    replay.sample(7)
    state = saved_and_loaded(replay.get_state(), tmp_path / "replay.npz")
    assert state["slots"].tolist() == [6, 5, 0, 1, 2, 3]
    assert state["priorities"].tolist() == [3.0, 4.0, 5.0, 6.0, 7.0, 1e-6]
    assert {name: array.dtype for name, array in state.items()} == {
        "slots": np.int32,
        "priorities": np.float64,
        "generator": np.uint8,
    }

    restored = PrioritizedReplay(6, 9, seed=99)
    restored.insert(np.array([0, 4]), np.array([50.0, 50.0]))  # is replaced
    restored.set_state(state)
    assert len(restored) == 6
    for count in (1, 64, 1000):
        before, after = replay.sample(count), restored.sample(count)
        for name in before._fields:
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
    assert restored.insert(np.array([4, 7]), np.ones(2)).tolist() == [6, 5]
    assert replay.insert(np.array([4, 7]), np.ones(2)).tolist() == [6, 5]
    np.testing.assert_array_equal(restored.sample(100).slots, replay.sample(100).slots)


def test_state_is_a_copy():
    replay = PrioritizedReplay(3, 3, seed=0)
    replay.insert(np.array([0, 1, 2]), np.ones(3))
    state = replay.get_state()
    replay.update(np.array([1]), np.array([9.0]))
    assert state["priorities"].tolist() == [1, 1, 1]


def test_the_state_of_an_empty_replay(tmp_path):
    replay = PrioritizedReplay(3, 3, seed=0)
    restored = PrioritizedReplay(3, 3, seed=1)
    restored.insert(np.array([0]), np.ones(1))
    restored.set_state(saved_and_loaded(replay.get_state(), tmp_path / "replay.npz"))
    assert len(restored) == 0
    for either in (replay, restored):
        either.insert(np.array([1, 2]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(restored.sample(50).slots, replay.sample(50).slots)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing():
    large = PrioritizedReplay(5, 9, seed=0)
    large.insert(np.array([8, 7, 6, 5]), np.ones(4))
    replay = PrioritizedReplay(3, 9, seed=0)
    replay.insert(np.array([1]), np.ones(1))
    with pytest.raises(ValueError, match="4 sequences do not fit a replay of 3"):
        replay.set_state(large.get_state())
    with pytest.raises(ValueError, match="slot 8 is not in 0 .. 4"):
        PrioritizedReplay(4, 5, seed=0).set_state(large.get_state())
    with pytest.raises(ValueError, match=r"has \['generator', 'priorities', 'slots'\], not \['slots'\]"):
        replay.set_state({"slots": np.zeros(1, np.int32)})
    assert replay.get_state()["slots"].tolist() == [1]
    larger = PrioritizedReplay(8, 9, seed=0)
    larger.set_state(large.get_state())
    assert larger.get_state()["slots"].tolist() == [8, 7, 6, 5]


@pytest.mark.parametrize(
    ("slots", "priorities", "message"),
    [
        ([0, 3], [1, 1], "slot 3 is already in the replay"),
        ([0, 1, 0], [1, 1, 1], "slot 0 is given twice"),
        ([0, -1], [1, 1], "slot -1 is not in 0 .. 5"),
        ([6], [1], "slot 6 is not in 0 .. 5"),
        ([0, 1], [1, -0.5], "priority -0.5 of slot 1 is not a finite number"),
        ([0, 1], [np.nan, 1], "priority nan of slot 0 is not a finite number"),
        ([0, 1], [1, np.inf], "priority inf of slot 1 is not a finite number"),
        ([0, 1], [1], "got (2,) and (1,)"),
        ([0.5], [1], "slots must be integers, got float64"),
        ([0, 1, 2, 4, 5], [1, 1, 1, 1, 1], "5 sequences do not fit a replay of 4"),
    ],
)
def test_what_insert_refuses_changes_nothing(slots, priorities, message):
    replay = PrioritizedReplay(4, 6, seed=0)
    replay.insert(np.array([3]), np.array([2.0]))
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
        replay.insert(np.array(slots), np.array(priorities))
    assert message in str(error.value)
    assert replay.get_state()["slots"].tolist() == [3]
    assert set(replay.sample(20).slots.tolist()) == {3}


@pytest.mark.parametrize(
    ("slots", "priorities", "message"),
    [
        ([3, 2], [1, 1], "slot 2 is not in the replay"),
        ([3, 0], [1, 1], "slot 0 is not in the replay"),
        ([7], [1], "slot 7 is not in 0 .. 5"),
        ([3, 4], [1, -1], "priority -1.0 of slot 4 is not a finite number"),
        ([3, 4], [np.nan, 1], "priority nan of slot 3 is not a finite number"),
    ],
)
def test_what_update_refuses_changes_nothing(slots, priorities, message):
    replay = PrioritizedReplay(2, 6, seed=0)
    replay.insert(np.array([2, 3]), np.array([9.0, 1.0]))
    replay.insert(np.array([4]), np.array([2.0]))  # evicts slot 2
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
        replay.update(np.array(slots), np.array(priorities))
    assert message in str(error.value)
    assert replay.get_state()["priorities"].tolist() == [1.0, 2.0]


def test_an_empty_replay_cannot_be_sampled():
    replay = PrioritizedReplay(2, 2, seed=0)
    with pytest.raises(ValueError, match="the replay is empty"):
        replay.sample(1)
    replay.insert(np.array([0]), np.ones(1))
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        replay.sample(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 0}, "capacity must be in 1 .. 4"),
        ({"capacity": 5}, "capacity must be in 1 .. 4"),
        ({"priority_exponent": 1.5}, "priority_exponent must be in"),
        ({"importance_exponent": -0.1}, "importance_exponent must be in"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrioritizedReplay(**{"capacity": 2, "num_slots": 4, "seed": 0, **arguments})
