"""A run with a league, from its settings to its results."""

import contextlib

import pytest

from seed_rl.experiment import ConfigError, config_files
from seed_rl.extras.league.games import with_league
from seed_rl.runs.assembly import Assembly
from seed_rl.runs.fleet import THREADS
from seed_rl.runs.run import Run

LEAGUE = ("import seed_rl.extras.league.settings", "Experiment.league = @League()")
GAME = ("import seed_rl.envs.pettingzoo", "Experiment.env = @PettingZoo()")


def test_a_run_plays_its_past_policies_and_would_go_on_with_them(tmp_path):
    often = ("League.every_updates = 2", "League.sets = 1", "Experiment.batch_size = 4", "VTrace.unroll_length = 8")
    small = ("Actors.envs_per_group = 2", "Actors.num_eval_envs = 2", "Inference.max_batch_size = 2")
    experiment = config_files.load("catch/vtrace", [*GAME, *LEAGUE, *often, *small, "Experiment.total_frames = 480"])
    with Run(experiment, str(tmp_path), actors=THREADS) as run:
        last = [*run.train()][-1]
    members = len((tmp_path / "league/results.csv").read_text().splitlines()) - 1
    assert last["league/members"] == members == 1 + last["learner_updates"] // 2
    assert members == len(list(tmp_path.glob("league/member-*.npz")))
    assert 0 < last["league/score"] < 1
    assert last["eval/episodes"] > 5
    assert not (tmp_path / "checkpoints/best.npz").exists(), "opponents change"
    with contextlib.ExitStack() as cleanup:
        parts = with_league(experiment.league, Assembly()).parts(experiment, str(tmp_path), cleanup)
    assert parts.progress.restored
    assert parts.progress.gauges()["league/members"] == members


def test_games_without_opponents_have_no_league():
    with pytest.raises(ConfigError, match=r"^Experiment.league needs .*'catch' has none"):
        config_files.load("catch/vtrace", LEAGUE)


def test_another_agent_plays_as_many_evaluation_games():
    assert config_files.load("pettingzoo/connect_four", agent="r2d2").actors.num_eval_envs == 16
