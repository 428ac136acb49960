"""Settings of DeepMind Lab: no simulator is needed for any of this."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest

from seed_rl.envs import registry
from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.dmlab_levels import needs_dataset, path_of
from seed_rl.specs import ActorSettings
from seed_rl.transport import messages

registry.register(DMLab)


def test_settings_survive_the_wire():
    config = DMLab(level="lt_chasm", action_set=(0, 0, 0, 1, 0, 0, 0), held_out=True, level_cache="gs://b/c")
    for sent in (config, DMLab()):
        settings = ActorSettings(sent.describe(), 1, 1)
        received = messages.read_describe_reply(messages.describe_reply(settings))
        assert registry.from_description(received.env) == sent


def test_the_spec_needs_no_simulator():
    program = """
import sys
from seed_rl.envs.dmlab import DMLab
print(DMLab().spec(), DMLab(width=120, height=92, action_set=(0, 0, 0, 1, 0, 0, 0) * 2).spec(), sep="\\n")
assert not {"deepmind_lab", "fsspec", "tensorflow"} & set(sys.modules)
"""
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "observation uint8[72, 96, 3]; action Discrete(9)",
        "observation uint8[92, 120, 3]; action Discrete(2)",
    ], done.stderr


@pytest.mark.parametrize("level", ["psychlab_visual_search", "rooms_watermaze", "psychlab_sequential_comparison"])
def test_other_levels_need_no_pictures(level):
    assert not needs_dataset(path_of(level))


@pytest.mark.parametrize(
    ("level", "path"),
    [
        ("rooms_watermaze", "contributed/dmlab30/rooms_watermaze"),
        ("rooms_collect_good_objects_test", "contributed/dmlab30/rooms_collect_good_objects_test"),
        ("contributed/dmlab30/rooms_watermaze", "contributed/dmlab30/rooms_watermaze"),
        ("tests/rooms_of_mine", "tests/rooms_of_mine"),
        ("rooms_of/mine", "rooms_of/mine"),
        ("lt_chasm", "lt_chasm"),
        ("nav_maze_static_01", "nav_maze_static_01"),
    ],
)
def test_level_paths(level, path):
    assert DMLab(level=level).path == path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "rooms_wattermaze"}, "DMLab.level: DMLab-30 has no level 'rooms_wattermaze'; .* rooms_watermaze"),
        ({"level": "rooms_collect_good_objects"}, "there are explore_.*rooms_collect_good_objects_train"),
        ({"level": ""}, "DMLab.level: a level must have a name"),
        ({"width": 98}, "DMLab.width must be a multiple of 4, got 98"),
        ({"height": 0}, "DMLab.height must be at least 4, got 0"),
        ({"height": -8}, "DMLab.height must be at least 4, got -8"),
        ({"num_action_repeats": 0}, "DMLab.num_action_repeats must be at least 1, got 0"),
        ({"renderer": "vulkan"}, "DMLab.renderer must be one of software, hardware, got 'vulkan'"),
        ({"action_set": (0,) * 8}, r"DMLab.action_set must hold integers, 7 for each action, got \(0, 0"),
        ({"action_set": (0.5,) * 7}, "DMLab.action_set must hold integers"),
        ({"action_set": (True,) * 7}, "DMLab.action_set must hold integers"),
        ({"action_set": ((0,) * 7,)}, "DMLab.action_set must hold integers"),
        ({"action_set": (600, 0, 0, 0, 0, 0, 0)}, r"look left/right must be in \[-512, 512\], got 600 in \(600, 0"),
        ({"action_set": (0, 0, 0, 0, -1, 0, 0)}, r"fire must be in \[0, 1\], got -1"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        DMLab(**settings)


def test_every_setting_is_part_of_the_description():
    names = {field.name for field in dataclasses.fields(DMLab)}
    assert set(DMLab().describe().options) == names
