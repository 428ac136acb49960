"""The texts that say which settings a search varies."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from seed_rl.experiment import ConfigError
from seed_rl.extras.studies.search import extremes, read_space, text_of


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("1e-4..1e-2", FloatDistribution(1e-4, 1e-2, log=True)),
        (" 0.01 .. 0.1 ", FloatDistribution(0.01, 0.1, log=True)),
        ("0.9..0.99", FloatDistribution(0.9, 0.99)),
        ("-1..-0.5", FloatDistribution(-1, -0.5)),
        ("1..40", IntDistribution(1, 40, log=True)),
        ("1_000..5_000", IntDistribution(1000, 5000)),
        ("16,64,16", CategoricalDistribution(["16", "64"])),
        ("(1, 2),none", CategoricalDistribution(["(1, 2)", "none"])),
    ],
)
def test_a_range_or_choices(text, distribution):
    assert read_space([f"A.b = {text}"]) == {"A.b": distribution}


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        *(([text], "expected NAME=LOW..HIGH or") for text in ("A.b", "=1..2", "A.b=5,", "A.b=1e-4...1e-2")),
        *(([text], "a lower to a higher finite bound") for text in ("A.b=1e-2..1e-4", "A.b=1..1e999")),
        (["A.b=1..2", "A.b=3,4"], "A.b twice"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(texts, word):
    with pytest.raises(ConfigError, match=word):
        read_space(texts)


def test_bounds_and_choices_are_what_the_experiment_must_accept():
    assert list(extremes(read_space(["A.b=1e-4..1", "A.c=x,y"]))) == ["A.b = 0.0001", "A.b = 1.0", "A.c = x", "A.c = y"]


@pytest.mark.parametrize(
    ("space", "value", "text"),
    [
        ("1e-4..1e-2", 0.00023456789, "0.000235"),
        ("0.99995..0.99999", 0.999973456, "0.9999735"),
        ("1.0..4000", 1234.5678, "1230.0"),
        ("0.0..1.0", 0.123456, "0.123"),
        ("3..5", 4, "4"),
    ],
)
def test_values_are_short_and_stay_in_their_range(space, value, text):
    assert text_of(value, read_space([f"A.b={space}"])["A.b"]) == text
