"""The page of Atari from made-up records."""

import json

import pytest

from benchmarks import atari_page
from scripts.record_result import write_table
from seed_rl.envs.atari import REFERENCES
from tests.benchmarks.atari_test import rows_of

FRAMES = 5_000_000


def record(folder, game, score, seed=1, **changed):
    """Writes what the queue records of a run with this score."""
    result = {
        "game": game,
        "seed": seed,
        "frames": FRAMES,
        "minutes": 9.0,
        "scores": [{"frames": FRAMES, "score": score, "episodes": 0 if score is None else 9}],
        "best_return": score,
        "max_abs_value": 7.0,
        "min_entropy_share": 0.5,
        "starts": [{"commit": "0123456789abcdef+"}],
        **changed,
    }
    content = {
        "command": f"seed_rl train --gin_file=atari/vtrace_fast '--gin_param=Atari.game = {game}'",
        "date": f"2026-01-0{seed}T00:00:00+00:00",
        "hardware": {"cores": 2, "processor": "Abacus"},
        "result": result,
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{game}_seed={seed}.json").write_text(json.dumps(content))
    write_table(rows_of(FRAMES), folder / f"{game}_seed={seed}.csv", ("env_frames", "episode_return"))


def human(game, percent):
    """The return that equals the given percentage of human play."""
    return REFERENCES[game].random + percent / 100 * (REFERENCES[game].human - REFERENCES[game].random)


@pytest.fixture
def results(tmp_path):
    """Published scores of five runs in three games: 50 % of human play, and 100 % of Rainbow."""
    lines = [
        f"{game},{agent},{frames},{run},{human(game, percent)}"
        for game in ("pong", "qbert", "alien")
        for agent, percent in (("DQN", 50), ("Rainbow", 100), ("IQN", 50))
        for frames in (5, 10)
        for run in range(5)
    ]
    text = "\n".join(["game,agent,million_frames,run,mean_training_return", *lines, ""])
    (tmp_path / atari_page.ANCHORS).write_text(text)
    return tmp_path


def cells(text, name):
    """The row of a table that begins with a name."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_a_game_has_the_mean_of_its_seeds_and_what_stands_out_is_named(results):
    folder = results / "atari5_5M"
    record(folder, "qbert", human("qbert", 20), max_abs_value=8e8)
    record(folder, "qbert", human("qbert", 40), seed=2, min_entropy_share=0.25)
    record(folder, "phoenix", None, failure="it diverged")
    text = atari_page.section("scores atari5_5M 5M", results)
    ours, dqn, rainbow, _, _, reference, percent, best, value, entropy, minutes = cells(text, "qbert")
    assert (ours, dqn, rainbow, reference, percent) == ("4,151", "6,809", "13,455", "13,455", "30.0")
    assert (best, value, entropy, minutes) == ("5,480", "8.0e+08", "0.25", "18.0")
    assert cells(text, "phoenix")[0] == "–"
    for line in (
        "- Largest mean value: 8.0e+08 (qbert).",
        "- Least entropy: 0.25 (qbert seed 2).",
        "- Failed: phoenix: it diverged.",
    ):
        assert line in text.splitlines()


def test_statistics_are_over_the_games_that_all_have(results):
    folder = results / "atari57_5M"
    for game, percent in (("pong", 10), ("qbert", 20), ("alien", 90), ("surround", 1000)):
        record(folder, game, human(game, percent))
    text = atari_page.section("summary atari57_5M 5M", results)
    assert cells(text, "seed_rl") == ["3", "3", "40.0 (10.0 to 90.0)", "20.0 (10.0 to 90.0)"]
    assert cells(text, "DQN") == ["3", "15", "50.0 (50.0 to 50.0)", "50.0 (50.0 to 50.0)"]
    record(folder, "pong", human("pong", 20), seed=2)
    record(folder, "qbert", None)
    assert cells(atari_page.section("summary atari57_5M 5M", results), "IQN")[:2] == ["2", "10"]


def test_pictures_are_drawn_of_what_has_been_run_and_shown_once_they_are_there(results):
    folder = results / "atari57_5M"
    folder.mkdir()
    atari_page.draw(folder)
    assert not list(folder.iterdir()), "nothing has been run"
    for game in ("pong", "surround"):
        record(folder, game, human(game, 10))
    assert ".png" not in atari_page.section("summary atari57_5M 5M", results)
    atari_page.draw(folder)
    assert {path.name for path in folder.glob("*.png")} == {"curves.png", "profile.png"}
    text = atari_page.section("summary atari57_5M 5M", results)
    assert f"]({results.name}/atari57_5M/curves.png)" in text
