"""Rules for every suite: how it is found, described and checked, and which spaces can be sent."""

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.atari import ATARI_57, Atari, games
from seed_rl.envs.base import CannotBuild, spec_of_spaces
from seed_rl.envs.catch import Catch, CatchVectorEnv
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import REFERENCES, TEST_TWINS, DMLab
from seed_rl.envs.football import Football
from seed_rl.envs.gym import Gym
from seed_rl.envs.memory import Memory
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.specs import EnvDescription

TEST = "rooms_collect_good_objects_test"


def test_settings_that_are_not_set_are_not_sent():
    assert MuJoCo(frame_skip=2).describe().options.keys() - MuJoCo().describe().options.keys() == {"frame_skip"}


def test_the_frames_of_a_step_are_counted():
    configs = Atari(frame_skip=3), Gym(frames_per_step=5), DMLab(), Football(num_action_repeats=2), Catch()
    assert [config.action_repeat for config in configs] == [3, 5, 4, 2, 1]


def test_an_unknown_suite_names_the_known_ones():
    with pytest.raises(CannotBuild, match="no environment suite named 'atarri'.*atari, catch, .*dmlab, .*football"):
        registry.suite("atarri")


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("atari", {"game": "Pong"}, r"one of 1.. ROMs .*, got 'Pong'. Did you mean 'pong'\?"),
        ("atari", {"frameskip": 4}, "suite 'atari' has no option frameskip"),
        ("mujoco", {"backend": "envpool", "frame_skip": 2}, "MuJoCo.frame_skip must be None with MuJoCo.backend ="),
        ("gym", {"options": '{"g": '}, r"""Gym.options must be a JSON object, got '{"g": ': Expecting value"""),
        ("gym", {"wrappers": (("a:B", 3),)}, r"must hold 'module:Class' or .*, got \('a:B', 3\)"),
        ("gym", {"wrappers": ("a:B",), "envpool": True}, r"Gym.wrappers must be \(\) with Gym.envpool"),
        ("gym", {"id": "ALE/Pong-v5"}, "ALE/Pong-v5 is a game of Atari, as in --gin_file=atari/vtrace_fast"),
        ("football", {"backend": "envpool", "map": "120x90"}, "Football.map must be 96x72 with the envpool backend"),
        ("football", {"backend": "envpool", "right_players": 1}, "Football.backend must be gfootball with several"),
        ("dmlab", {"width": 98}, "DMLab.width must be a multiple of 4, got 98"),
        ("dmlab", {"level": TEST}, f"DMLab.held_out must be True in {TEST}, which is for evaluation only"),
        ("dmlab", {"action_set": (0,) * 8}, r"DMLab.action_set must hold 7 numbers for each action, got \(0, 0"),
        ("dmlab", {"action_set": (600, 0, 0, 0, 0, 0, 0)}, r"look left/right must be in \[-512, 512\], got 600"),
    ],
)
def test_invalid_settings_are_named(suite, options, message):
    with pytest.raises(CannotBuild, match=message) as error:
        registry.from_description(EnvDescription(suite, options))
    assert "In call to configurable" not in str(error.value)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Discrete(5), spaces.Discrete(2), r"Box or a Dict of Boxes \(FlatVectorEnv conv.*, got Discrete\(5\)"),
        (spaces.Box(0, 1, (0,)), spaces.Discrete(2), r"observations can't come from Box.*: shape must .*, got \(0,\)"),
        (spaces.Dict(a=spaces.Box(0, 1, (2,), np.int8)), spaces.Discrete(2), "n a can't come from Box.*: dtype must"),
        (spaces.Box(0, 1, (3,)), spaces.Discrete(2, start=1), "start at 0, .*, got Discrete"),
        (spaces.Box(0, 1, (3,)), spaces.Box(0, np.inf, (2,)), "actions can't come from Box.*: .* finite bounds"),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_sent_are_named(observation, action, message):
    with pytest.raises(CannotBuild, match=message):
        spec_of_spaces(observation, action)


def test_a_suite_that_breaks_a_rule_is_caught(monkeypatch):
    with pytest.raises(AssertionError, match="no episode ended"):
        check_suite(Catch(), steps=5)
    reset = CatchVectorEnv.reset
    monkeypatch.setattr(CatchVectorEnv, "reset", lambda env, seed: reset(env, seed=5))
    with pytest.raises(AssertionError, match="a different seed gave the same episode"):
        check_suite(Catch(), steps=30)
    monkeypatch.setattr(CatchVectorEnv, "reset", reset)
    monkeypatch.setattr(Catch, "spec", Memory().spec)
    with pytest.raises(AssertionError):
        check_suite(Catch(), steps=30)


# Scores.


def test_scores_are_those_of_the_published_formula():
    assert len(ATARI_57) == 57
    assert set(ATARI_57) <= set(games())
    assert len(REFERENCES) == 30
    for train, test in TEST_TWINS.items():
        assert DMLab(train).human_normalised(5.0) == DMLab(test, held_out=True).human_normalised(5.0)
    assert Atari("pong").human_normalised(19.5) == pytest.approx(100 * (19.5 + 20.7) / 35.3)
    assert Atari("breakout").human_normalised(400.0) == pytest.approx(1382.986, abs=1e-3)
    assert DMLab("rooms_watermaze").human_normalised(30.0) == pytest.approx(100 * (30 - 4.065) / (54 - 4.065))
    assert DMLab("contributed/dmlab30/rooms_watermaze").human_normalised(54.0) == pytest.approx(100)
    for unknown in (Atari("air_raid"), DMLab("seekavoid_arena_01"), Catch()):
        assert unknown.human_normalised(1.0) is None
