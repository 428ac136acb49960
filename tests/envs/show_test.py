"""What a network gets, as text and pictures."""

import re

import numpy as np
import pytest
from PIL import Image

from seed_rl.cli.main import main
from seed_rl.envs.gym import Gym
from seed_rl.envs.show import picture_of, show_observations
from seed_rl.specs import ArraySpec
from tests.support.counting import Counting

MODULE = "tests.support.registered_envs"


def test_every_part_is_described_after_all_conversions_and_masks_as_what_they_allow(tmp_path):
    settings = ("--gin_param=Gym.keys=('-pair',)", '--options={"senses": "nested"}', f"--show={tmp_path}/new")
    assert main(["envs", "check", f"{MODULE}:Echo-v0", *settings]) == 0
    lines = (tmp_path / "new/observations.txt").read_text().splitlines()
    assert [line.partition(", was")[0] for line in lines[2:6]] == [
        "camera/left: frame, uint8[2, 3, 1], declared 0 to 255",
        "camera/right: frame, uint8[2, 3, 1], declared 0 to 255",
        "mode: numbers, bool[3], declared 0 to 1",
        "action: MultiDiscrete(2, 3)",
    ]
    pictures = [np.array(Image.open(path)) for path in sorted(tmp_path.glob("new/*_camera+left.png"))]
    env = Gym(f"{MODULE}:Echo-v0", options='{"senses": "nested"}').make(1)
    np.testing.assert_array_equal(pictures[0], env.reset(seed=0)[0]["camera/left"][0, ..., 0])
    assert len(pictures) == 11
    show_observations(Gym(f"{MODULE}:Masked-v0", options='{"levers": "from three"}'), str(tmp_path))
    text = (tmp_path / "observations.txt").read_text()
    assert "action: Discrete(4), with a mask" in text
    assert len(re.findall(r"^  legal actions \[[01]( [01]){3}\]$", text, re.MULTILINE)) == 11


def test_a_step_has_the_action_that_led_to_it_and_no_end_where_an_episode_begins(tmp_path):
    show_observations(Counting(), str(tmp_path))  # the reward is the action; episodes have five steps
    text = (tmp_path / "observations.txt").read_text()
    steps = re.findall(r"step \d+: action (\d+), reward (\d+),", text)
    assert len(steps) == 10
    assert all(action == reward for action, reward in steps)
    assert len(set(steps)) > 5
    assert (text.count("an episode begins"), text.count("ends")) == (3, 0)


@pytest.mark.parametrize(
    ("part", "values", "picture"),
    [
        (ArraySpec((1, 2, 2), "uint8"), [[[1, 2], [3, 4]]], [[1, 3, 128, 2, 4]]),
        (ArraySpec((1, 3, 1), "int32"), [[[-1], [0], [1]]], [[0, 127, 255]]),
        (ArraySpec((1, 1), "uint16"), [[0b101]], [[*(255, 128, 0, 128, 255), *(128, 0) * 13]]),
    ],
    ids=["channels", "grid", "planes"],
)
def test_channels_lie_side_by_side(part, values, picture):
    np.testing.assert_array_equal(picture_of(part, np.array(values, part.dtype)), picture)


def test_one_environment_is_written_into_a_directory(tmp_path, capsys):
    (tmp_path / "file").touch()
    for arguments in (["catch", f"--show={tmp_path}/file"], ["catch", "memory", f"--show={tmp_path}/new"]):
        assert main(["envs", "check", *arguments]) == 2
        assert "--show" in capsys.readouterr().err
