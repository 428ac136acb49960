"""Matches between players, and their ratings."""

import contextlib
import pathlib
from types import SimpleNamespace

import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.catch import Catch
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.evaluation.policy import NoPolicy
from seed_rl.extras.league import matches
from seed_rl.extras.league.matches import Match
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec

GAME = PettingZoo()
PERFECT = "board_games:tic_tac_toe"


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[3] / "examples"))


def test_results_are_the_first_players_from_either_seat():
    forth = matches.match(GAME, (PERFECT, "random"), 40)
    back = matches.match(GAME, ("random", PERFECT), 40)
    assert forth.wins + forth.draws == 40, "who moves first is drawn for each game"
    assert forth.wins > 30
    assert (back.wins, back.losses > 30, back.score < 0.2) == (0, True, True)
    assert matches.match(GAME, (PERFECT, PERFECT), 8) == Match(PERFECT, PERFECT, 0, 8, 0)
    four = PettingZoo(env="classic/connect_four-v3")
    assert matches.match(four, ("board_games:connect_four", "random"), 16).wins > 12, "by a search of two plies"


def test_ratings_follow_results_whatever_the_order_of_matches():
    played = [Match("a", "b", 15, 2, 3), Match("a", "c", 20, 0, 0), Match("b", "c", 12, 6, 2)]
    for order in (played, played[::-1]):
        rated = matches.ratings(order)
        assert [each.name for each in rated] == ["a", "b", "c"]
        assert all(each.sigma < 8 for each in rated), "less than before a game"
    lines = matches.text(played).splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["1.", "a"], ["2.", "b"], ["3.", "c"]]
    assert lines[3].split()[-2:] == ["20.0%", "75.0%"]


def test_a_policy_need_not_read_what_only_its_critic_did(monkeypatch):
    game, actor, other = (
        EnvSpec({name: ArraySpec((2,), "float32") for name in names}, DiscreteSpec(3)) for names in ("ab", "a", "bc")
    )
    for spec, plays in ((actor, True), (other, False)):
        policy = SimpleNamespace(env_spec=spec, reset=lambda rows: None, act="acts")
        monkeypatch.setattr(matches, "load_policy", lambda *_, policy=policy: policy)
        with contextlib.nullcontext() if plays else pytest.raises(NoPolicy, match="plays with b float32"):
            assert matches.new_player("a_run", game, 4) == "acts"


@pytest.mark.parametrize(
    ("game", "player", "error", "word"),
    [
        (GAME, "nowhere:player", NoPolicy, "nowhere:player"),
        (GAME, "board_games:nobody", NoPolicy, "board_games:nobody"),
        (GAME, "/nonexistent@best", NoPolicy, "/nonexistent"),
        (Catch(), "random", CannotBuild, "opponents"),
    ],
)
def test_what_is_no_match_is_refused(game, player, error, word):
    with pytest.raises(error, match=word):
        matches.match(game, ("random", player), 1)
