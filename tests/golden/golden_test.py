"""What this library and the original return for the same inputs: within bounds, or different on purpose."""

from __future__ import annotations

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.vtrace import VTrace
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.value_rescaling import SIGNED_HYPERBOLIC
from tests.golden import comparisons
from tests.golden.comparisons import GROUPS, difference
from tests.golden.originals import cases
from tests.golden.quantities import EACH, LARGEST, QUANTITIES

RECORD = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "faithfulness" / "golden.json"
"""What the page shows, written by `scripts/golden.py`."""


@pytest.fixture(scope="module")
def recorded():
    return {row["quantity"]: row for row in json.loads(RECORD.read_text(encoding="utf-8"))["result"]["quantities"]}


@pytest.mark.parametrize("group", GROUPS)
def test_results_are_the_originals_within_the_bounds_that_the_page_shows(group, recorded):
    measured = comparisons.measure(group)
    for name, found in measured.items():
        own, row = QUANTITIES[name], recorded[name]
        assert (row["by"], row["relative_to"], row["bound"]) == (own.by, own.relative_to, own.bound), name
        assert (row["arrays"], row["numbers"]) == (found.arrays, found.numbers), name
    assert {
        name: found.difference for name, found in measured.items() if found.difference > QUANTITIES[name].bound
    } == {}


class InFloat64(keras.DTypePolicy):
    """Layers keep weights in float32 and compute in float64."""

    @property
    def compute_dtype(self):
        return "float64"


@pytest.mark.parametrize(("network", "bound"), [("residual", 2e-4), ("football", 5e-4)])
def test_gradients_of_convolutions_in_float64_are_the_originals_up_to_its_own_rounding(network, bound, monkeypatch):
    def in_float64(**settings):
        config = VTrace(**settings)
        object.__setattr__(config, "dtype", InFloat64("float32"))
        return config

    monkeypatch.setattr(comparisons, "VTrace", in_float64)
    measured = comparisons.measure(f"{network}_network")
    (found,) = (each for name, each in measured.items() if name.endswith("gradients of the convolutions"))
    assert bound / 3 < found.difference < bound, "in float32 it is up to 1.3e-3"


def test_the_page_shows_every_quantity_with_a_bound_that_is_close_to_its_difference(recorded):
    assert list(recorded) == list(QUANTITIES)
    for name, row in recorded.items():
        assert row["difference"] <= row["bound"] <= max(30 * row["difference"], 1e-6), name


def test_what_is_not_a_number_differs_from_all_numbers():
    for ours, original in (([np.nan, 3.0], [0.0, 3.0]), ([3.0, 3.0], [np.nan, 3.0])):
        assert difference(ours, original, LARGEST) == np.inf
    assert difference([1e-9, 3.0], [0.0, 3.0], EACH) == np.inf


def test_of_small_values_the_original_keeps_fewer_digits():
    """Its formulas are the definitions in float32, where 1 is subtracted from a number near 1."""
    (case,) = cases("r2d2.npz", "rescaling")
    near = (np.abs(case["x"]) < 1e-3) & (case["x"] != 0)
    x, original, original_inverse = (case[name][near] for name in ("x", "h", "h_inverse"))
    as_defined = tf.sign(x) * (tf.sqrt(tf.abs(x) + 1) - 1) + 1e-3 * x
    inverse = tf.sign(x) * (tf.square((tf.sqrt(1 + 4e-3 * (tf.abs(x) + 1 + 1e-3)) - 1) / 2e-3) - 1)
    assert difference(as_defined, original, EACH) < 1e-6
    assert difference(inverse, original_inverse, EACH) < 1e-6
    assert difference(SIGNED_HYPERBOLIC.apply(x), original, EACH) == pytest.approx(0.1, abs=0.02)
    assert difference(SIGNED_HYPERBOLIC.inverse(x), original_inverse, EACH) > 0.9


def test_continuous_actions_start_with_another_deviation():
    (case,) = cases("distributions.npz", "squashed_normal")
    log_prob = distribution_of(comparisons.BOUNDS).log_prob(case["parameters"], case["actions"])
    assert difference(log_prob, case["log_prob"], LARGEST) > 0.01
    assert pytest.approx(0.694, abs=5e-4) == comparisons.INITIAL_DEVIATION
