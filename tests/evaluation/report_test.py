import json
import math
import pathlib
from types import SimpleNamespace

import pytest

from seed_rl.cli.main import main
from seed_rl.evaluation.episodes import Evaluation, evaluate_run, text, text_over_runs, write
from seed_rl.evaluation.policy import NoPolicy
from seed_rl.experiment import ConfigError
from seed_rl.specs import EnvDescription


def test_an_evaluation_has_every_episode(saved_run):
    logdir, _ = saved_run("catch/vtrace", "VTrace.core = 'lstm'", "VTrace.core_units = 8", "VTrace.frame_stack = 2")
    evaluation = evaluate_run(pathlib.Path(logdir), None, episodes=30, num_envs=4, greedy=True, seed=3)
    assert evaluation.checkpoint == f"{logdir}/checkpoints/checkpoint-000000000007.npz"
    assert (evaluation.env_frames, evaluation.greedy, evaluation.seed, evaluation.episodes) == (700, True, 3, 30)
    assert evaluation.lengths == [9] * 30
    assert evaluation.mean == pytest.approx(sum(evaluation.returns) / 30)


def test_a_game_is_played_to_its_end_by_all_players_and_the_file_is_written(saved_run, tmp_path):
    logdir, _ = saved_run("pettingzoo/tic_tac_toe", "VTrace.hidden = 8")
    assert main(["eval", f"--logdir={logdir}", "--episodes=5", f"--output={tmp_path}/e.json"]) == 0
    written = json.loads((tmp_path / "e.json").read_text())
    assert (written["episodes"], written["wanted_episodes"], written["mean"]) == (6, 6, 0)
    assert written["standard_error"] == 0, "what one player wins the other loses"


def test_a_policy_plays_until_it_is_stopped_in_changed_environments_that_it_can_act_in(saved_run):
    options, group = 'Actors.eval_options={"delay": 4}', ("Actors.num_eval_envs = 4", "Actors.envs_per_group = 4")
    logdir, _ = saved_run("memory/r2d2", options, *group)
    stop = SimpleNamespace(is_set=iter([*[False] * 30, True]).__next__)
    longer = evaluate_run(logdir, episodes=40, num_envs=8, stop=stop, gin_params=["Memory.delay = 20"])
    assert longer.lengths == [22] * 8
    assert (longer.episodes, longer.wanted_episodes, longer.environment.options["delay"]) == (8, 40, 20)
    assert "Memory.delay = 20\nepisodes  8 of 40 (interrupted, which favours short" in text(longer)
    own = evaluate_run(logdir, episodes=2)
    assert (own.lengths, own.gin_params) == ([6, 6], ['Actors.eval_options = {"delay": 4}'])
    for wrong in ("R2D2.hidden = 7", "Memory.delays = 7"):
        with pytest.raises(ConfigError, match=wrong.partition(" ")[0].rpartition(".")[2]):
            evaluate_run(logdir, gin_params=[wrong])
    catch = saved_run("catch/vtrace")[0]
    with pytest.raises(NoPolicy, match=r"the policy acts in .*; with Catch.columns = 7 they have .*7"):
        evaluate_run(catch, gin_params=["Catch.columns = 7"])
    first, again, other = (evaluate_run(catch, episodes=16, num_envs=8, greedy=True, seed=n) for n in (1, 1, 2))
    assert first == again
    assert first.returns != other.returns


def evaluation_of(**fields):
    """An evaluation of four episodes, except for the given fields."""
    numbers = {"env_frames": 1_200_000, "seed": 7, "wanted_episodes": 4, "episodes": 4, "mean": 1004.0, "min": -1.0}
    more = {"standard_error": 2.04, "median": 2.5, "max": 10.0, "mean_length": 1700.0, "human_normalised": 101.25}
    named = {"logdir": "run", "checkpoint": "run/checkpoint.npz", "environment": EnvDescription("catch")}
    lists = {"gin_params": [], "returns": [], "lengths": []}
    return Evaluation(**{**numbers, **more, **named, **lists, "greedy": True, **fields})


def test_an_evaluation_as_text_and_as_json(tmp_path):
    shown = text(evaluation_of())
    for part in ("1,200,000 frames", "greedy", "1,004.00 +- 2.04", "101.2 %"):
        assert part in shown
    assert "score" not in text(evaluation_of(human_normalised=None))
    assert "standard error" not in text(evaluation_of(standard_error=math.nan))
    write(evaluation_of(standard_error=math.nan, returns=[1.0, math.inf]), str(tmp_path / "e.json"))
    written = json.loads((tmp_path / "e.json").read_text())
    assert (written["standard_error"], written["returns"], written["mean"]) == (None, [1.0, None], 1004.0)


def test_statistics_are_over_runs():
    atari, catch = [("pong", 1.0, 110.0), ("breakout", 9.0, 30.0)], [("catch", 1.0, None), ("catch", 0.0, None)]
    for scores, part in (
        (atari * 2, "4 runs in 2 environments: interquartile mean of the score 70.00 %, 95 % interval 70.00 to 70.00"),
        (catch, "2 runs in 1 environment: interquartile mean of the mean return 0.50, 95 % interval 0.00 to 1.00"),
        (atari + catch, "no common score"),
    ):
        runs = [
            evaluation_of(environment=EnvDescription("atari", {"game": game}), mean=mean, human_normalised=score)
            for game, mean, score in scores
        ]
        assert part in text_over_runs(runs)
