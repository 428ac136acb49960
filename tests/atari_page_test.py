"""What the page of Atari says of failures and several seeds; pages_test.py writes the whole page again."""

import json
import pathlib
import shutil

import pytest

from scripts import atari_page

RECORDS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results" / "atari"


@pytest.fixture
def folder(tmp_path):
    """A copy of the records of two runs, whatever else has been recorded since, beside the published scores."""
    shutil.copy(RECORDS / atari_page.ANCHORS, tmp_path)
    copied = tmp_path / "atari5_10M"
    copied.mkdir()
    for game in ("name_this_game", "qbert"):
        for path in (RECORDS / copied.name).glob(f"{game}_seed=1.*"):
            shutil.copy(path, copied)
    return copied


def change(path, to, score, **changed):
    """Writes a record with another score as a second one."""
    record = json.loads(path.read_text())
    scores = [{**each, "score": score} for each in record["result"]["scores"]]
    to.write_text(json.dumps({**record, "result": {**record["result"], "scores": scores, **changed}}))


def cells(text, name):
    """The row of a table that begins with a name."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_a_game_has_the_mean_of_its_seeds_and_what_stands_out_is_named(folder):
    one, other = folder / "qbert_seed=1.json", folder / "name_this_game_seed=1.json"
    change(one, folder / "qbert_seed=2.json", 7202.01, seed=2, max_abs_value=8e8, min_entropy_share=0.25)
    change(other, other, None, failure="it diverged")
    text = atari_page.part_of("scores atari5_10M 10M", folder.parent)
    ours, *_, percent, best, value, entropy, minutes = cells(text, "qbert")
    assert (ours, percent, best) == ("6,202", "45.4", "5,548")
    assert (value, entropy, minutes) == ("8.0e+08", "0.25", "47.8")
    assert cells(text, "name_this_game")[0] == "–"
    for line in (
        "- Largest mean value: 8.0e+08 (qbert seed 2).",
        "- Least entropy: 0.25 (qbert seed 2).",
        "- Failed: name_this_game: it diverged.",
    ):
        assert line in text.splitlines()
    text = atari_page.part_of("summary atari5_10M 10M", folder.parent)
    assert cells(text, "seed_rl")[:2] == ["1", "2"], "games that have no score are left out"
    assert cells(text, "IQN")[:2] == ["1", "5"]


def test_a_game_without_a_finished_training_episode_has_the_score_of_greedy_episodes(folder):
    one, other = folder / "qbert_seed=1.json", folder / "name_this_game_seed=1.json"
    change(one, one, None, greedy={"episodes": 16, "mean": 7202.01, "standard_error": 9.0, "mean_length": 27000.0})
    change(other, other, None, greedy=None)
    text = atari_page.part_of("scores atari5_10M 10M", folder.parent)
    assert cells(text, "qbert")[:2] == ["7,202", "7,202"], "ours, and ours if greedy"
    assert cells(text, "name_this_game")[:2] == ["–", "–"]
    assert cells(atari_page.part_of("summary atari5_10M 10M", folder.parent), "seed_rl")[:2] == ["1", "1"]


def test_pictures_are_drawn_of_what_has_been_run_and_shown_once_they_are_there(folder):
    assert ".png" not in atari_page.part_of("summary atari5_10M 10M", folder.parent)
    atari_page.draw(folder)
    assert {path.name for path in folder.glob("*.png")} == {"curves.png", "profile.png"}
    text = atari_page.part_of("summary atari5_10M 10M", folder.parent)
    assert f"]({folder.parent.name}/atari5_10M/curves.png)" in text
    (folder.parent / "empty").mkdir()
    atari_page.draw(folder.parent / "empty")
    assert not list((folder.parent / "empty").iterdir())
