"""What this library and the original return for the same inputs."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from tests.golden.comparisons import GROUPS, difference, measure
from tests.golden.quantities import EACH, LARGEST, QUANTITIES

RECORD = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "faithfulness" / "golden.json"
"""What the page shows, written by `scripts/golden.py`."""


@pytest.fixture(scope="module")
def recorded():
    return {row["quantity"]: row for row in json.loads(RECORD.read_text(encoding="utf-8"))["result"]["quantities"]}


@pytest.mark.parametrize("group", GROUPS)
def test_results_are_the_originals_within_the_bounds_that_the_page_shows(group, recorded):
    measured = measure(group)
    for name, found in measured.items():
        own, row = QUANTITIES[name], recorded[name]
        assert (row["by"], row["relative_to"], row["bound"]) == (own.by, own.relative_to, own.bound), name
        assert (row["arrays"], row["numbers"]) == (found.arrays, found.numbers), name
        assert found.difference <= own.bound, name


def test_the_page_shows_every_quantity_with_a_bound_that_is_close_to_its_difference(recorded):
    assert list(recorded) == list(QUANTITIES)
    for name, row in recorded.items():
        assert row["difference"] <= row["bound"] <= max(30 * row["difference"], 1e-6), name


def test_what_is_not_a_number_differs_from_all_numbers():
    for ours, original in (([np.nan, 3.0], [0.0, 3.0]), ([3.0, 3.0], [np.nan, 3.0])):
        assert difference(ours, original, LARGEST) == np.inf
    assert difference([1e-9, 3.0], [0.0, 3.0], EACH) == np.inf
