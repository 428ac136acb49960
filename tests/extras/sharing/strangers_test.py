"""Folders of the Hub that strangers have written."""

import json

import pytest

from tests.evaluation.conftest import save_run
from tests.support.strangers import attacked

HUB = {
    "no description": "null",
    "no JSON": "{",
    "another version": '{"seed_rl": {"a": 1}}',
    "a version that is none": json.dumps({"seed_rl": "0.1 <script>"}),
    "no version": "{}",
}


@pytest.mark.parametrize("text", HUB.values(), ids=HUB)
def test_a_strangers_folder_of_the_hub(text, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "folder"
    save_run(str(folder), "catch/vtrace")
    (folder / "policy.json").write_text(text)
    command = ["export", "--format=hub", f"--logdir={folder}", f"--output={tmp_path}/published"]
    assert "policy.json can't be used: " in attacked(command, tmp_path, monkeypatch, capsys)
    assert not (tmp_path / "published").exists()
