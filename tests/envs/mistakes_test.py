"""Mistakes in environments of others: before training, an error with the part, what was declared and what came."""

import dataclasses
import json
import re
from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.envs.catch import Catch
from seed_rl.envs.checks import Checked
from seed_rl.envs.elsewhere import findings, make_elsewhere, probed_spec, watch_elsewhere
from seed_rl.envs.gym import Gym
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.envs.vector.steps import Steps
from tests.support.registered_envs import Counted

ID = "tests.support.mistaken_env:Mistaken-v0"


def mistaken(vectorization="sync", **options):
    return Gym(ID, vectorization=vectorization, options=json.dumps(options))


def tried(config):
    """Takes two steps in this process."""
    with closing(config.make(2)) as env:
        steps = Steps(env)
        steps.reset(seed=1)
        for _ in range(2):
            output = steps.step(np.zeros(2, np.int32))
        return output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"observation": "long"}, r"the observation of reset is declared as Box\(.*\), but came as float32\[4\]"),
        ({"observation": "ragged"}, r"of reset is declared as Box\(.*, but came as \[\[0.0\], \[0.0, 0"),
        ({"observation": "half", "space": "parts"}, r"is declared as Dict\(.*, but came as {'a': array"),
        ({"observation": "half", "space": "two"}, r"is declared as Tuple\(Box"),
        ({"observation": "seven", "space": "pair"}, r"as MultiDiscrete\(\[3 3\]\), but came as array\(\[ 7, -2\]"),
    ],
    ids=str,
)
def test_a_result_that_is_not_what_was_declared_is_named(options, sentence):
    with pytest.raises(CannotBuild, match=f"^environment 0 of 2 of {ID}: .*{sentence}"):
        tried(mistaken(**options))


def test_what_can_be_understood_is_accepted():
    output = tried(mistaken(observation="list", reward="array of one"))
    assert output.observation.tolist() == [[0, 0, 0]] * 2
    assert output.reward.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"reset": "long"}, r"failed in reset: ValueError: too many values .*observation, _ = self.env.reset"),
        ({"step": "ragged"}, r"failed in step: ValueError: not enough values to unpack \(expected 5, got 2\)"),
        ({"reward": "array of two"}, r"failed in step: ValueError: .*reward = float\("),
        ({"make": "exit"}, r"can't be made: SystemExit: 3 \(mistaken_env.py, line \d+: "),
        ({"step": "error"}, r"failed in step: ValueError: the game crashed \(mistaken_env.py, line \d+: raise"),
    ],
    ids=str,
)
def test_an_error_keeps_its_reason_and_its_place(options, sentence):
    with pytest.raises((CannotBuild, EnvironmentFailed), match=f"^(environment 0 of 2 of )?{ID} {sentence}"):
        tried(mistaken(**options))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"step": "crash"}, rf"the process of an environment of suite 'gym' \({ID}\) ended in step: SIGSEGV"),
        ({"observation": "nan"}, rf"suite 'gym' \({ID}\): observation must be finite in float32, but is nan"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*ERROR")
def test_mistakes_are_found_when_the_spec_is_read(options, sentence):
    with pytest.raises((CannotBuild, EnvironmentFailed), match=sentence):
        probed_spec(mistaken(**options))


@pytest.mark.filterwarnings("error:.*overflow")
def test_what_is_too_large_for_float32_is_a_sentence_and_not_a_warning():
    output = tried(mistaken(reward="huge", observation="three huge", space="doubles"))
    assert output.reward.tolist() == [np.inf] * 2
    assert output.observation.tolist() == [[np.inf] * 3] * 2
    with pytest.raises(CannotBuild, match=r"Mistaken-v0\): reward must be finite in float32, but is inf$"):
        probed_spec(mistaken(reward="huge"))


def test_odd_names_of_observations_are_replaced_by_their_positions():
    spec = mistaken(space="names", observation="all").spec()
    assert [name for name, _ in spec.observation_tensors()] == ["0", "2", "3", "plain"]


def test_another_process_gives_the_same_episodes():
    config, actions = Catch(), np.array([0, 1, 2])
    with closing(make_elsewhere(config, 3)) as there, closing(config.make(3)) as here:
        assert there.metadata == here.metadata
        np.testing.assert_array_equal(there.reset(seed=5)[0], here.reset(seed=5)[0])
        for _ in range(20):
            for one, other in zip(there.step(actions)[:4], here.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(one, other)


def test_an_environment_that_is_only_known_here_is_made_here():
    class Local(Catch):
        suite = "local"

    with closing(make_elsewhere(Local(), 1)) as env:
        assert env.reset(seed=1)[0].shape == (1, 10, 5, 1)


def test_large_frames_are_warned_about_with_what_shrinks_them(monkeypatch, caplog):
    monkeypatch.setattr("seed_rl.envs.elsewhere.LARGE_FRAME", 7_000)
    config = Gym("tests.support.registered_envs:Echo-v0", options='{"senses": "wide"}')
    probed_spec(config)
    assert "Echo-v0) has large frames, slow to send and to learn from; Gym.frame_size = 84 shrinks" in caplog.text
    caplog.clear()
    probed_spec(dataclasses.replace(config, frame_size=40))
    assert caplog.text == ""


def test_findings_are_lines_of_text():
    spec, steps, ends = findings(PettingZoo(), seconds=0.0)
    assert spec.endswith("turn int32[1]; action Discrete(9); action masks of 9 values; 2 players")
    assert re.fullmatch("1 random steps, .* a second, with rewards from 0 to 0", steps)
    assert ends == "0 ends of episodes", "too few steps to say more"


def test_a_picture_is_shown_without_transparency():
    with closing(mistaken(render="rgba").watch()) as env:
        picture = env.picture(env.reset(seed=1)[0])
    assert picture.shape == (20, 30, 3)
    assert (picture == 255).all()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("nothing", r"render must return a picture, uint8 \[H, W, 3\], but returned object\(\)"),
        ("planes", r"render must return a picture, uint8 \[H, W, 3\], but returned uint8\(3, 20, 30\)"),
        ("assertion", "Mistaken-v0 failed in render: AssertionError"),
    ],
)
def test_a_picture_that_is_none_is_named(kind, sentence):
    with pytest.raises(CannotBuild, match=f"^{ID} can't be filmed: .*{sentence}"):
        mistaken(render=kind).watch()


def test_a_crash_while_rendering_is_a_sentence():
    with pytest.raises(EnvironmentFailed, match="ended in make: SIGSEGV"):
        watch_elsewhere(mistaken(render="crash"))


def checked(env):
    return Checked(lambda: env, "environment 2 of 8 of the game")


def test_an_error_is_named_and_an_episode_ends_with_its_numbers():
    class Flaky(Counted):
        def step(self, action):
            *rest, info = super().step(action)
            if self._episode == 1:
                raise RuntimeError("lost its simulator")
            return *rest, {**info, "steps": self._steps, "level": np.array([7.0]), "is_success": np.True_, "map": "E1"}

    env = checked(Flaky())
    env.reset(seed=3)
    assert env.step(0)[4] == {}
    assert env.step(0)[2:] == (True, False, {"steps": 2.0, "level": 7.0, "is_success": 1.0})
    env.reset()
    with pytest.raises(
        EnvironmentFailed, match="^environment 2 of 8 of the game failed in step: RuntimeError: lost its"
    ):
        env.step(0)


def test_a_reset_does_not_change_the_last_observation_of_the_episode_before():
    class InPlace(Counted):
        own = np.zeros(3, np.int64)

        def _observe(self):
            self.own[:] = super()._observe()
            return self.own

    env = checked(InPlace())
    env.reset()
    env.step(0)
    last = env.step(0)[0]
    env.reset()
    assert last.tolist() == [-1, 0, 2]
