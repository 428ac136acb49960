import re

import numpy as np
import pytest

from seed_rl.buffers.samplers import PrioritizedSampler, UniformSampler


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
        return [weight / max(weights) for weight in weights], max(weights)


def prioritized(capacity, num_slots, alpha=0.9, beta=0.6, seed=0):
    return PrioritizedSampler(capacity, num_slots, seed, alpha, beta)


def uniform(capacity, num_slots, alpha=0.0, beta=0.0, seed=0):
    return UniformSampler(capacity, num_slots, seed, alpha, beta)


@pytest.mark.parametrize(
    ("make", "capacity", "alpha", "beta"),
    [(prioritized, 1, 1.0, 1.0), (prioritized, 7, 0.9, 0.6), (prioritized, 16, 0.0, 0.0), (uniform, 7, 0.0, 0.0)],
)
def test_samplers_equal_a_naive_twin(make, capacity, alpha, beta):
    rng = np.random.default_rng(capacity)
    num_slots = capacity + 5
    sampler, twin = make(capacity, num_slots, alpha, beta, seed=3), NaiveReplay(capacity, alpha, beta)
    free = list(range(num_slots))
    num_evicted = 0
    for _ in range(300):
        rng.shuffle(free)
        count = rng.integers(min(len(free), capacity) + 1)
        slots, free = free[:count], free[count:]
        priorities = rng.exponential(size=count) * (rng.random(count) < 0.8)  # many zeros, which count as the floor
        evicted = sampler.insert(np.array(slots, np.int32), priorities)
        assert evicted.dtype == np.int32
        assert evicted.tolist() == twin.insert(slots, priorities)
        free.extend(evicted.tolist())
        num_evicted += len(evicted)
        assert len(sampler) == len(twin.inside)
        if not twin.inside:
            continue
        sample = sampler.sample(12)
        assert (sample.slots.dtype, sample.weights.dtype) == (np.int32, np.float32)
        weights, scale = twin.weights(sample.slots)
        np.testing.assert_allclose(sample.weights, weights, rtol=1e-6)
        assert sample.scale == pytest.approx(scale)
        assert sample.weights.max() == 1
        priorities = rng.exponential(size=12) * (rng.random(12) < 0.8)
        sampler.update(sample.slots, priorities)  # some slots more than once: the last priority counts
        twin.update(sample.slots, priorities)
        state = sampler.get_state()
        assert list(zip(state["slots"], state["priorities"], strict=True)) == [tuple(entry) for entry in twin.inside]
    assert num_evicted > 100


@pytest.mark.parametrize(("make", "alpha"), [(prioritized, 0.0), (prioritized, 0.5), (uniform, 0.0)])
def test_draws_are_independent_and_as_frequent_as_the_formula_says(make, alpha):
    slots, priorities = np.array([5, 0, 2, 4]), np.array([0.1, 2.0, 1.0, 0.5])
    sampler = make(4, 6, alpha, seed=2)
    sampler.insert(slots, priorities)
    probabilities = np.zeros(6)
    probabilities[slots] = priorities**alpha / np.sum(priorities**alpha)
    expected = 100_000 * np.outer(probabilities, probabilities).ravel()
    first, second = sampler.sample(200_000).slots.reshape(-1, 2).T
    counts = np.bincount(6 * first + second, minlength=36)
    assert np.all(counts[expected == 0] == 0)
    inside = expected > 0
    # Pearson's statistic has 15 degrees of freedom; it exceeds 37.7 once in a thousand seeds.
    assert np.sum((counts - expected)[inside] ** 2 / expected[inside]) < 37.7


def test_the_weights_of_extreme_priorities_are_finite():
    sampler = prioritized(2, 2, alpha=1.0, beta=1.0)
    sampler.insert(np.array([0, 1]), np.array([0.0, float(np.finfo(np.float32).max)]))
    assert sampler.sample(10).weights.tolist() == [1.0] * 10


@pytest.mark.parametrize("make", [prioritized, uniform])
def test_a_restored_sampler_continues_with_the_same_content_and_draws(make):
    sampler, restored = make(6, 9), make(6, 9, seed=99)
    sampler.insert(np.array([8, 7, 6, 5]), np.array([1.0, 2.0, 3.0, 4.0]))
    sampler.insert(np.array([0, 1, 2, 3]), np.array([5.0, 6.0, 7.0, 0.0]))  # the ring has wrapped
    sampler.sample(7)
    state = sampler.get_state()
    sampler.update(np.array([1]), np.array([9.0]))  # does not reach the state, which is a copy
    sampler.set_state(state)
    restored.insert(np.array([0, 4]), np.array([50.0, 50.0]))  # is replaced
    restored.set_state(state)
    assert restored.slots.tolist() == [6, 5, 0, 1, 2, 3]
    assert restored.get_state()["priorities"].tolist() == [3.0, 4.0, 5.0, 6.0, 7.0, 1e-6]
    for each in (sampler, restored):
        assert each.insert(np.array([4, 7]), np.ones(2)).tolist() == [6, 5]
    for drawn, again in zip(sampler.sample(1000), restored.sample(1000), strict=True):
        np.testing.assert_array_equal(again, drawn)


@pytest.mark.parametrize("slots", [[1, 8, 5], []])
def test_a_state_saved_by_one_kind_restores_another_of_any_capacity(slots):
    saved, restored = uniform(3, 9), prioritized(8, 9, seed=1)
    saved.insert(np.array(slots, np.int32), np.array([1.0, 2.0, 4.0])[: len(slots)])
    restored.insert(np.array([0, 2, 3, 6]), np.ones(4))
    restored.set_state(saved.get_state())
    np.testing.assert_equal(restored.get_state(), saved.get_state())
    restored.insert(np.array([4]), np.ones(1))
    assert set(restored.sample(100).slots.tolist()) == {*slots, 4}


def test_a_state_that_does_not_fit_is_refused():
    large = prioritized(5, 9)
    large.insert(np.array([8, 7, 6, 5]), np.ones(4))
    with pytest.raises(ValueError, match="4 sequences do not fit into a replay with a capacity of 3"):
        prioritized(3, 9).set_state(large.get_state())
    with pytest.raises(ValueError, match=r"has \['generator', 'priorities', 'slots'\], not \['slots'\]"):
        large.set_state({"slots": np.zeros(1, np.int32)})


@pytest.mark.parametrize(
    ("method", "slots", "priorities", "message"),
    [
        ("insert", [0, 1], [1, -0.5], "priority -0.5 of slot 1 is not a finite number"),
        ("insert", [0, 1], [1], "got (2,) and (1,)"),
        ("insert", [0, 3], [1, 1], "slot 3 is already inside"),
        ("insert", [0, 0], [1, 1], "a slot is given twice"),
        ("update", [3, 2], [1, 1], "slot 2 is not inside"),
        ("update", [3, 4], [np.nan, 1], "priority nan of slot 3 is not a finite number"),
    ],
)
def test_refused_arguments_change_nothing(method, slots, priorities, message):
    sampler = prioritized(3, 7)
    sampler.insert(np.array([2, 3, 4]), np.array([9.0, 1.0, 2.0]))
    sampler.insert(np.array([5]), np.array([3.0]))  # evicts slot 2
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(sampler, method)(np.array(slots), np.array(priorities))
    state = sampler.get_state()
    assert (state["slots"].tolist(), state["priorities"].tolist()) == ([3, 4, 5], [1.0, 2.0, 3.0])
    assert set(sampler.sample(100).slots.tolist()) == {3, 4, 5}
