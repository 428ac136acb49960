import pytest

from benchmarks import timing


def test_a_spread_has_the_median_and_every_repeat_in_order():
    assert timing.spread([3.0, 1.0, 2.0]) == {"median": 2.0, "repeats": [3.0, 1.0, 2.0]}


def test_rates_are_units_per_second_of_calls_after_the_first(monkeypatch):
    now, calls = [0.0], []

    def work():
        calls.append(now[0])
        now[0] += 100.0 if len(calls) == 1 else 0.5  # the first call compiles
        return 3

    monkeypatch.setattr(timing.time, "monotonic", lambda: now[0])
    assert timing.rates(work, seconds=4.0, repeats=2) == [6.0, 6.0]
    assert len(calls) == 1 + 2 * 4
    assert timing.rate(work, seconds=4.0) == 6.0


def test_a_repeat_has_one_call_at_least():
    assert len(timing.rates(lambda: 1, seconds=1e-9, repeats=3)) == 3


def test_what_is_compared_takes_turns_within_each_repeat(monkeypatch):
    now, order = [0.0], []

    def work(name, seconds):
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(timing.time, "monotonic", lambda: now[0])
    works = {"slow": lambda: work("slow", 0.5), "fast": lambda: work("fast", 0.25)}
    assert timing.milliseconds(works, seconds=1.0, repeats=2) == {"slow": [500.0] * 2, "fast": [250.0] * 2}
    assert order == ["slow", "fast", *["slow", "fast", "fast"] * 2]


def test_ratios_are_of_values_measured_side_by_side():
    assert timing.ratio([2.0, 6.0, 8.0], [1.0, 2.0, 2.0]) == {"median": 3.0, "repeats": [2.0, 3.0, 4.0]}
    with pytest.raises(ValueError, match="zip"):
        timing.ratio([1.0], [1.0, 2.0])


def test_repeats_of_many_values_are_merged_and_told_in_medians():
    merged = timing.spreads([{"a": 1.0, "name": "x"}, {"a": 5.0, "name": "x"}, {"a": 2.0, "name": "x"}])
    assert merged == {"a": {"median": 2.0, "repeats": [1.0, 5.0, 2.0]}, "name": "x"}
    assert timing.medians(merged) == {"a": 2.0, "name": "x"}
