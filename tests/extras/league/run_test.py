"""A run with a league, from its settings to its results."""

import dataclasses

import pytest

from seed_rl.experiment import ConfigError, config_files
from seed_rl.runs.fleet import THREADS
from seed_rl.runs.run import Run

LEAGUE = ("import seed_rl.extras.league.settings", "Experiment.league = @League()")


def test_a_run_plays_its_past_policies_and_goes_on_with_them(tmp_path):
    often = ("League.every_updates = 2", "League.sets = 1", "Experiment.batch_size = 4", "VTrace.unroll_length = 8")
    small = ("Actors.envs_per_group = 4", "Actors.num_eval_envs = 4", "Inference.max_batch_size = 4")
    others = ("VTrace.hidden = 16", "Optimizer.schedule = constant")
    experiment = config_files.load("pettingzoo/tic_tac_toe", [*LEAGUE, *often, *small, *others])
    scores = []
    for frames in (320, 640):
        longer = dataclasses.replace(experiment, total_frames=frames)
        with Run(longer, str(tmp_path), actors=THREADS) as run:
            last = [*run.train()][-1]
        members = len((tmp_path / "league/results.csv").read_text().splitlines()) - 1
        assert last["league/members"] == members == 1 + last["learner_updates"] // 2
        assert members == len(list(tmp_path.glob("league/member-*.npz")))
        scores.append(last["league/score"])
        assert last["eval/episodes"] > 5
    assert all(0 < score < 1 for score in scores)
    assert not (tmp_path / "checkpoints/best.npz").exists(), "opponents change"


def test_games_without_opponents_have_no_league():
    with pytest.raises(ConfigError, match=r"^Experiment.league needs .*'catch' has none"):
        config_files.load("catch/vtrace", LEAGUE)
