"""Rules for every suite: how it is found, described and checked, what can't be built, and which spaces can be sent."""

import dataclasses
import importlib.util
import json
import sys

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.atari import ATARI_57, Atari, games
from seed_rl.envs.base import CannotBuild, UniformVectorEnv, spec_of
from seed_rl.envs.catch import Catch, CatchVectorEnv
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import REFERENCES, TEST_TWINS, DMLab
from seed_rl.envs.football import Football
from seed_rl.envs.gym import Gym
from seed_rl.envs.memory import Memory
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.specs import EnvDescription
from tests.support import leaving_game, registered_envs

TEST = "rooms_collect_good_objects_test"
OWN, ZOO = registered_envs.__name__, leaving_game.__name__


def echo(senses="flat", levers="choices", **settings):
    return Gym(f"{OWN}:Echo-v0", options=json.dumps({"senses": senses, "levers": levers}), **settings)


def pooled(name, options="{}", **settings):
    return Gym(name, envpool=True, options=options, **settings)


STICKY = Atari("breakout", sticky_actions=0.25, full_action_set=True, max_episode_frames=80, threads=2)
BLANK = Atari("pong", max_episode_frames=80, blank_probability=0.5, grayscale=False)
PONG = '{"max_episode_steps": 10, "stack_num": 2, "img_height": 40, "img_width": 50}'
SHORT = '{"max_episode_steps": 20, "reset_noise_scale": 0.01}'


@pytest.mark.parametrize(
    ("config", "steps", "spec"),
    [
        (Catch(), 60, "observation uint8[10, 5, 1]; action Discrete(3)"),
        (Memory(num_cues=2, delay=1), 60, None),
        (STICKY, 25, "observation uint8[84, 84, 1]; action Discrete(18)"),
        (BLANK, 25, "observation uint8[84, 84, 3]; action Discrete(6)"),
        (pooled("CartPole-v1", vectorization="async"), 80, "observation float32[4]; action Discrete(2)"),
        (pooled("Pong-v5", PONG), 12, "observation uint8[40, 50, 2]; action Discrete(6)"),
        (MuJoCo("Hopper", options=SHORT), 45, "observation float32[11]; action Continuous(-1..1, -1..1, -1..1)"),
        (MuJoCo("Swimmer", "envpool", SHORT), 45, "observation float32[8]; action Continuous(-1..1, -1..1)"),
        (PettingZoo(), 12, None),
    ],
    ids=str,
)
def test_conformance(config, steps, spec):
    assert spec in (None, str(config.spec()))
    check_suite(config, steps)


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


def test_settings_that_are_not_set_are_not_sent():
    limited = dataclasses.make_dataclass("Limited", [("limit", int | None, None)], bases=(Catch,), frozen=True)
    assert limited(limit=2).describe().options.keys() - limited().describe().options.keys() == {"limit"}


def test_the_frames_of_a_step_are_counted():
    configs = Atari(frame_skip=3), Gym(frames_per_step=5), DMLab(), Football(num_action_repeats=2), Catch()
    assert [config.action_repeat for config in configs] == [3, 5, 4, 2, 1]


# What can't be built: the setting or part that the error names.


@pytest.mark.parametrize(
    ("suite", "settings", "word"),
    [
        ("atarri", {}, "known: atari, catch, "),
        ("atari", {"game": "Pong"}, "Did you mean 'pong'"),
        ("atari", {"frameskip": 4}, "option frameskip"),
        ("gym", {"options": '{"g": '}, "Gym.options"),
        ("gym", {"wrappers": (("a:B", 3),)}, "module:Class"),
        ("gym", {"wrappers": ("a:B",), "envpool": True}, "Gym.wrappers"),
        ("gym", {"wrappers": ("a:B",), "vectorization": "vector_entry_point"}, "Gym.wrappers"),
        ("gym", {"id": "ALE/Pong-v5"}, "atari/vtrace_fast"),
        ("football", {"backend": "envpool", "map": "120x90"}, "Football.map"),
        ("football", {"backend": "envpool", "right_players": 1}, "Football.backend"),
        ("dmlab", {"width": 98}, "DMLab.width"),
        ("dmlab", {"level": TEST}, "DMLab.held_out"),
        ("dmlab", {"action_set": (0,) * 8}, "7 numbers"),
        ("dmlab", {"action_set": (600, 0, 0, 0, 0, 0, 0)}, "look left/right"),
    ],
)
def test_invalid_settings(suite, settings, word):
    with pytest.raises(CannotBuild, match=word) as error:
        registry.from_description(EnvDescription(suite, settings))
    assert "In call to configurable" not in str(error.value)


def zoo(players=3, options="{}", **settings):
    return PettingZoo(ZOO, players, options, **settings)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (echo("text"), "Text"),
        (echo("no number"), "no number"),
        (echo("many inside"), r"keys = \('-b',\)"),
        (echo("text inside"), "observation b must"),
        (echo("nested", keys=("-lens",)), "no observation 'lens'"),
        (echo("one part", keys=("-only",)), "leave no observation"),
        (echo("same names"), "different paths"),
        (echo(levers="unbounded"), "bounded"),
        (echo(levers="text inside"), "action b/1"),
        (echo(levers="no part"), "need a part"),
        (echo(levers="integers"), "1000 values"),
        (Gym(wrappers=("os:system",)), "gymnasium.Wrapper"),
        (Gym("Nope-v1"), "has its module"),
        (Gym("MinAtar/Breakout-v1"), "shimmy"),
        (Gym("Pendulum-v1", vectorization="vector_entry_point"), "vector entry point"),
        (Gym("CartPole-v1", options='{"wheels": 4}', vectorization="async"), "'wheels'"),
        (Gym("FrozenLake-v1", options='{"map_name": "3x3"}'), "KeyError: '3x3' .frozen_lake.py"),
        (Gym(f"{OWN}:Undeclared-v0"), "vector version alone"),
        (Gym(f"{OWN}:Undeclared-v0", vectorization="vector_entry_point"), "autoreset mode None"),
        (pooled("Nope-v1"), "list_all_envs"),
        (pooled("CartPole-v1", '{"wheels": 4}'), "'wheels'"),
        (PettingZoo(), r"players in .* \(2\), got 3"),
        (PettingZoo("classic/tictac-v3", 3), "not found"),
        (zoo(players=1), "PettingZoo.players must be 3"),
        (zoo(roles=("r",)), "PettingZoo.roles"),
        (zoo(options='{"also": "role"}', roles=("r", "s")), "already has an observation"),
        (zoo(options='{"unequal": true}'), "supersuit"),
        (DMLab("psychlab_continuous_recognition", dataset_path="/tmp"), "DMLab.dataset_path"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*missing AutoresetMode metadata")
def test_environments_that_cannot_be_made(config, word):
    with pytest.raises(CannotBuild, match=word):
        config.make(3)


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for package, config in (("envpool", pooled("CartPole-v1")), ("gfootball", Football()), ("deepmind_lab", DMLab())):
        monkeypatch.delitem(sys.modules, package, raising=False)
        with pytest.raises(CannotBuild, match=f"needs {package}, which is not installed here"):
            config.make(1)


@pytest.mark.parametrize(
    ("observation", "action", "word"),
    [
        (spaces.Discrete(5), spaces.Discrete(2), "FlatVectorEnv"),
        (spaces.Dict(a=spaces.Box(0, 1, (2,), np.int8)), spaces.Discrete(2), "observation a .* dtype"),
        (spaces.Box(0, 1, (3,)), spaces.Discrete(2, start=1), "start at 0"),
        (spaces.Box(0, 1, (3,)), spaces.Box(0, np.inf, (2,)), "finite bounds"),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_sent(observation, action, word):
    with pytest.raises(CannotBuild, match=word):
        spec_of(UniformVectorEnv(1, observation, action))


# Scores.


def test_scores_are_those_of_the_published_formula():
    assert len(ATARI_57) == 57
    assert set(ATARI_57) <= set(games())
    assert len(REFERENCES) == 30
    for train, test in TEST_TWINS.items():
        assert DMLab(train).human_normalised(5.0) == DMLab(test, held_out=True).human_normalised(5.0)
    assert Atari("pong").human_normalised(19.5) == pytest.approx(100 * (19.5 + 20.7) / 35.3)
    assert Atari("pong", terminal_on_life_loss=True).human_normalised(19.5) is None, "the return of a life"
    assert Atari("breakout").human_normalised(400.0) == pytest.approx(1382.986, abs=1e-3)
    assert DMLab("rooms_watermaze").human_normalised(30.0) == pytest.approx(100 * (30 - 4.065) / (54 - 4.065))
    assert DMLab("contributed/dmlab30/rooms_watermaze").human_normalised(54.0) == pytest.approx(100)
    for unknown in (Atari("air_raid"), DMLab("seekavoid_arena_01"), Catch()):
        assert unknown.human_normalised(1.0) is None
