import pytest

from seed_rl.envs.dmlab_levels import DMLAB30, TEST_TWINS, scored_in
from seed_rl.envs.dmlab_scores import REFERENCES, human_normalised, summary


def test_there_are_thirty_levels_each_with_a_reference():
    assert len(DMLAB30) == len(REFERENCES) == 30
    assert {scored_in(name) for name in DMLAB30} == set(REFERENCES)
    assert set(TEST_TWINS.values()) < set(REFERENCES)
    assert all(reference.human > reference.random for reference in REFERENCES.values())


def test_a_random_policy_scores_0_and_a_person_100():
    for level, reference in REFERENCES.items():
        assert human_normalised(level, [reference.random]) == pytest.approx(0, abs=1e-9)
        assert human_normalised(level, [reference.human]) == pytest.approx(100)


def test_the_mean_of_the_returns_is_scored():
    # (30 - 4.065) / (54 - 4.065)
    assert human_normalised("rooms_watermaze", [20.0, 40.0]) == pytest.approx(51.93752)
    assert human_normalised("rooms_watermaze", 30.0) == pytest.approx(51.93752)
    assert human_normalised("contributed/dmlab30/rooms_watermaze", [30.0]) == pytest.approx(51.93752)


def test_a_level_to_learn_in_is_scored_like_its_test_twin():
    for train, test in TEST_TWINS.items():
        assert human_normalised(train, [5.0]) == human_normalised(test, [5.0])


@pytest.mark.parametrize("level", ["rooms_collect_good_objects", "lt_chasm", "contributed/dmlab30/rooms", ""])
def test_other_levels_have_no_score(level):
    with pytest.raises(ValueError, match="no level of DMLab-30; there are explore_"):
        human_normalised(level, [1.0])


def test_no_returns_are_no_score():
    with pytest.raises(ValueError, match="no returns of rooms_watermaze"):
        human_normalised("rooms_watermaze", [])


def test_each_levels_score_is_capped_before_the_mean():
    scores = {"rooms_watermaze": 150.0, "rooms_keys_doors_puzzle": 50.0, "natlab_fixed_large_map": -20.0}
    assert summary(scores) == (60.0, 50.0, pytest.approx(130 / 3), 3)
    capped = dict.fromkeys(DMLAB30, 120.0)
    assert summary(capped) == (120.0, 120.0, 100.0, 30)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "got none"),
        (
            {"rooms_exploit_deferred_effects_train": 1.0, "rooms_exploit_deferred_effects_test": 1.0},
            "each once, got rooms_exploit_deferred_effects_test, rooms_exploit_deferred_effects_train",
        ),
        ({"rooms_watermaze": float("nan")}, "finite"),
        ({"nowhere": 1.0}, "no level of DMLab-30"),
    ],
)
def test_scores_that_can_not_be_summed_up(scores, message):
    with pytest.raises(ValueError, match=message):
        summary(scores)
