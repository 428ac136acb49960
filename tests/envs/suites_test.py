"""Rules for every suite: how it is found, described and checked, and which spaces can be sent."""

import dataclasses
import sys
import types

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.atari import ATARI_57, Atari, games
from seed_rl.envs.base import CannotBuild, spec_of
from seed_rl.envs.catch import Catch
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.dmlab.levels import REFERENCES, TEST_TWINS, summary
from seed_rl.envs.gym import Gym
from seed_rl.envs.memory import Memory
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.specs import ActorSettings, EnvDescription
from seed_rl.transport import messages


@pytest.mark.parametrize(
    "sent",
    [
        Atari("breakout", threads=2),
        Catch(rows=4),
        Memory(delay=3),
        Gym("CartPole-v1", options='{"sutton_barto_reward": true}'),
        MuJoCo(task="Hopper", terminate_when_unhealthy=False, max_episode_steps=20),
        DMLab(level="lt_chasm", action_set=(0, 0, 0, 1, 0, 0, 0), held_out=True, level_cache="gs://b/c"),
        DMLab(),
    ],
    ids=lambda config: config.suite,
)
def test_settings_survive_the_wire(sent):
    assert set(sent.describe().options) == {
        name for name, value in dataclasses.asdict(sent).items() if value is not None
    }
    settings = ActorSettings(sent.describe(), 1, 1)
    received = messages.read_describe_reply(messages.describe_reply(settings))
    assert registry.from_description(received.env) == sent


def test_an_unknown_suite_names_the_known_ones():
    with pytest.raises(CannotBuild, match="no environment suite named 'atarri'.*atari, catch, .*dmlab, .*football"):
        registry.suite("atarri")


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("atari", {"game": "Pong"}, r"one of 1.. ROMs .*, got 'Pong'. Did you mean 'pong'\?"),
        ("atari", {"sticky_actions": 1.5}, r"sticky_actions must be in \[0, 1\], got 1.5"),
        ("atari", {"frame_skip": 0}, "frame_skip must be at least 1, got 0"),
        ("atari", {"frame_skip": "4"}, "frame_skip must be int, got '4'"),
        ("atari", {"frameskip": 4}, "suite 'atari' has no option frameskip"),
        ("memory", {"num_cues": 1}, "Memory.num_cues must be at least 2, got 1"),
        ("mujoco", {"task": "Cheetah"}, r"MuJoCo.task must be one of Ant, .*, got 'Cheetah'"),
        (
            "mujoco",
            {"backend": "envpool", "frame_skip": 2},
            "MuJoCo.frame_skip must be None with MuJoCo.backend = 'envpool'",
        ),
        ("memory", {"delay": 0}, "Memory.delay must be at least 1, got 0"),
        ("gym", {"vectorization": "threads"}, "Gym.vectorization must be one of sync, async, vector_entry_point, got"),
        ("gym", {"frames_per_step": 0}, "Gym.frames_per_step must be at least 1, got 0"),
        ("gym", {"options": '{"g": '}, r"""Gym.options must be a JSON object, got '{"g": ': Expecting value"""),
        ("gym", {"options": "[1, 2]"}, r"Gym.options must be a JSON object, got '\[1, 2\]'"),
        ("gym", {"options": "[" * 99_999}, r"must be a JSON object, got '\[{200}': it is nested too deeply"),
        ("football", {"scenario": "academy"}, "Football.scenario must be one of 11_vs_11_competition, .*'academy'"),
        ("football", {"rewards": "checkpoints"}, "Football.rewards must be one of scoring, scoring,checkpoints"),
        ("football", {"map": "96x73"}, "Football.map must be one of 96x72, 120x90, 144x108"),
        ("football", {"backend": "envpool", "map": "120x90"}, "Football.map must be 96x72 with the envpool backend"),
        ("dmlab", {"level": "rooms_wattermaze"}, "DMLab.level: DMLab-30 has no level 'rooms_wattermaze'; .* rooms_w"),
        ("dmlab", {"level": ""}, "DMLab.level: a level must have a name"),
        ("dmlab", {"width": 98}, "DMLab.width must be a multiple of 4, got 98"),
        ("dmlab", {"height": -8}, "DMLab.height must be at least 4, got -8"),
        ("dmlab", {"renderer": "vulkan"}, "DMLab.renderer must be one of software, hardware, got 'vulkan'"),
        ("dmlab", {"action_set": (0,) * 8}, r"DMLab.action_set must hold integers, 7 for each action, got \(0, 0"),
        ("dmlab", {"action_set": (True,) * 7}, "DMLab.action_set must hold integers"),
        ("dmlab", {"action_set": (600, 0, 0, 0, 0, 0, 0)}, r"look left/right must be in \[-512, 512\], got 600 in"),
    ],
)
def test_invalid_settings_are_named(suite, options, message):
    with pytest.raises(CannotBuild, match=message):
        registry.from_description(EnvDescription(suite, options))


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Discrete(5), spaces.Discrete(2), r"Box or a Dict of Boxes \(FlatVectorEnv conv.*, got Discrete\(5\)"),
        (spaces.Box(0, 1, (3,), np.int8), spaces.Discrete(2), "dtype must be one of bool, .*, got 'int8'"),
        (spaces.Box(0, 1, (3,)), spaces.Discrete(2, start=1), "start at 0, .*, got Discrete"),
        (spaces.Box(0, 1, (3,)), spaces.Box(0, np.inf, (2,)), "actions can't come from Box.*: .* finite bounds"),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_sent_are_named(observation, action, message):
    env = types.SimpleNamespace(single_observation_space=observation, single_action_space=action)
    with pytest.raises(CannotBuild, match=message):
        spec_of(env)


class Unseeded(Catch):
    """Ignores its seed."""

    def make(self, num_envs):
        env = super().make(num_envs)
        reset = env.reset
        env.reset = lambda seed: reset(seed=5)
        return env


class Misdescribed(Catch):
    """Declares a board of another size."""

    def spec(self):
        return Catch(rows=self.rows + 1).spec()


@pytest.mark.parametrize(
    ("config", "steps", "message"),
    [
        (Catch(), 5, "no episode ended"),
        (Unseeded(), 30, "a different seed gave the same episode"),
        (Misdescribed(), 30, None),
    ],
)
def test_a_suite_that_breaks_a_rule_is_caught(config, steps, message, monkeypatch):
    monkeypatch.setattr("seed_rl.envs.conformance.from_description", lambda description: config)
    with pytest.raises(AssertionError, match=message):
        check_suite(config, steps)


def test_the_spec_of_dmlab_needs_no_simulator(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)
    assert str(DMLab().spec()) == "observation uint8[72, 96, 3]; action Discrete(9)"
    chosen = DMLab(width=120, height=92, action_set=(0, 0, 0, 1, 0, 0, 0) * 2)
    assert str(chosen.spec()) == "observation uint8[92, 120, 3]; action Discrete(2)"


# Scores.


def test_scores_are_those_of_the_published_formula():
    assert len(ATARI_57) == 57
    assert set(ATARI_57) <= set(games())
    assert Atari("pong").human_normalised(19.5) == pytest.approx(100 * (19.5 + 20.7) / 35.3)
    assert Atari("breakout").human_normalised(30.5) == pytest.approx(100)
    assert Atari("breakout").human_normalised(1.7) == pytest.approx(0)
    assert Atari("breakout").human_normalised(400.0) == pytest.approx(1382.986, abs=1e-3)
    assert Atari("air_raid").human_normalised(100.0) is None
    assert DMLab("rooms_watermaze").human_normalised(30.0) == pytest.approx(100 * (30 - 4.065) / (54 - 4.065))
    assert DMLab("contributed/dmlab30/rooms_watermaze").human_normalised(54.0) == pytest.approx(100)
    assert DMLab("seekavoid_arena_01").human_normalised(30.0) is None
    assert Catch().human_normalised(1.0) is None


def test_dmlab30_has_thirty_levels_and_training_levels_are_scored_by_their_test_twins():
    assert len(REFERENCES) == 30
    assert all(reference.human > reference.random for reference in REFERENCES.values())
    for train, test in TEST_TWINS.items():
        assert DMLab(train).human_normalised(5.0) == DMLab(test, held_out=True).human_normalised(5.0)


def test_each_levels_score_is_capped_before_the_mean():
    scores = {"rooms_watermaze": 150.0, "rooms_keys_doors_puzzle": 50.0, "natlab_fixed_large_map": -20.0}
    assert summary(scores) == (60.0, 50.0, pytest.approx(130 / 3), 3)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "got none"),
        (
            {"rooms_exploit_deferred_effects_train": 1.0, "rooms_exploit_deferred_effects_test": 1.0},
            "each once, got rooms_exploit_deferred_effects_test, rooms_exploit_deferred_effects_train",
        ),
        ({"rooms_watermaze": float("nan")}, "finite"),
        ({"nowhere": 1.0}, "one or more DMLab-30 levels, each once, got nowhere"),
    ],
)
def test_scores_that_cannot_be_summarised(scores, message):
    with pytest.raises(ValueError, match=message):
        summary(scores)
