import pytest

from seed_rl.envs.atari import ATARI_57, Atari
from seed_rl.envs.atari_scores import REFERENCES, human_normalised


def test_every_game_of_atari_57_has_a_reference():
    assert set(REFERENCES) == set(ATARI_57)
    assert all(reference.human > reference.random for reference in REFERENCES.values())


def test_scores_are_those_of_the_published_formula():
    # Random play in Pong: -20.7, a person: 14.6; in Breakout 1.7 and 30.5 (Wang et al. 2016, table 2).
    assert Atari(game="pong").human_normalised(19.5) == pytest.approx(100 * (19.5 + 20.7) / 35.3)
    assert Atari(game="breakout").human_normalised(30.5) == pytest.approx(100)
    assert Atari(game="breakout").human_normalised(1.7) == pytest.approx(0)
    assert human_normalised("breakout", 400.0) == pytest.approx(1382.986, abs=1e-3)


def test_other_games_have_no_score():
    assert human_normalised("air_raid", 100.0) is None
    assert Atari(game="air_raid").human_normalised(100.0) is None
