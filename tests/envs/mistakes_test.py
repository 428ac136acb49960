"""Mistakes in environments of others: before training, an error with the part, what was declared and what came."""

import json
import multiprocessing
import re
import signal
import subprocess
import time
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs import elsewhere
from seed_rl.envs.base import CannotBuild, EnvironmentFailed, UniformVectorEnv
from seed_rl.envs.catch import Catch
from seed_rl.envs.checks import Checked
from seed_rl.envs.elsewhere import findings, make_elsewhere, probe_spec, watch_elsewhere
from seed_rl.envs.gym import Gym
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.envs.vector.steps import Steps
from seed_rl.envs.vector.wrappers import FlatVectorEnv
from seed_rl.system import children
from tests.support.deadlines import within
from tests.support.mistaken_env import Mistaken
from tests.support.registered_envs import Counted

ID = "tests.support.mistaken_env:Mistaken-v0"
FINE, LONG, NANS = [0.0] * 3, [0.0] * 4, [np.nan] * 3


def mistaken(**options):
    return Gym(ID, options=json.dumps(options))


def play_two_steps(config):
    """Takes two steps in this process; returns the output of the last."""
    with closing(config.make(2)) as env:
        steps = Steps(env)
        steps.reset(seed=1)
        for _ in range(2):
            output = steps.step(np.zeros(2, np.int32))
        return output


@pytest.mark.parametrize(
    ("act", "options", "kind", "word"),
    [
        (play_two_steps, {"observation": LONG}, CannotBuild, r"float64\[4\]"),
        (play_two_steps, {"observation": {"a": FINE}, "space": "parts"}, CannotBuild, "'b' is missing in {'a': "),
        (play_two_steps, {"observation": [7, -2], "space": "pair"}, CannotBuild, r"array\(\[ 7, -2\]"),
        (play_two_steps, {"reset": LONG}, CannotBuild, r"reset must return \(observation, info\), got .*; .*Shimmy$"),
        (play_two_steps, {"step": "old"}, CannotBuild, r"step must return \(observation, reward, .*, got a tuple of 4"),
        (play_two_steps, {"reward": [1.0, 1.0]}, EnvironmentFailed, "one number, got 2; games of several players"),
        (play_two_steps, {"reward": None}, EnvironmentFailed, "one number, got None$"),
        (probe_spec, {"observation": NANS}, CannotBuild, "observation must be finite"),
        (probe_spec, {"reward": 1e300}, CannotBuild, "reward must be finite"),
        (probe_spec, {"reward": 3e8}, CannotBuild, r"reward must be at most 1e\+06 in size, but is 3e\+08"),
        (probe_spec, {"observation": [0, -2e8, 0]}, CannotBuild, r"observation must be at most 1e\+08 in size"),
        (play_two_steps, {"observation": [300, 0, 0], "space": "bytes"}, CannotBuild, r"uint8\), but came as .*300"),
        (Gym.watch, {"render": "planes"}, CannotBuild, r"uint8\(3, 20, 30\); and there is nothing to draw"),
        (Gym.watch, {"render": "error"}, CannotBuild, r"render: ValueError: the game crashed \(mistaken_env.py, line"),
        (watch_elsewhere, {"render": "exit"}, CannotBuild, "render: SystemExit"),
        (watch_elsewhere, {"render": "crash"}, EnvironmentFailed, "make: SIGSEGV"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ERROR")
def test_a_mistake_is_an_error_that_says_where_and_what(act, options, kind, word):
    with pytest.raises(kind, match=word) as error:
        act(mistaken(**options))
    assert ID in str(error.value)


@pytest.mark.parametrize(
    ("mistake", "word"),
    [
        ({"third observation": {"a": FINE, "b": LONG}}, r"step 'b' is .*float64\[4\]"),
        ({"third observation": {"a": FINE}}, "{'a'"),
        ({"third observation": [300, 0, 0], "space": "bytes"}, r"step is declared as Box.* came as array\(\[300"),
        ({"third observation": [7, -2], "space": "pair"}, r"declared as MultiDiscrete.*, but came as array"),
        ({"third observation": {"a": FINE, "b": NANS}}, "observation b must be a number"),
        ({"third reward": np.nan}, "reward must be a number"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ERROR")
def test_an_odd_step_after_others_is_an_error_with_the_environment_and_the_part(make, mistake, word):
    env = make(mistaken(**{"space": "parts"} | mistake), 2)
    env.reset(seed=1)
    for _ in range(2):
        env.step(np.zeros(2, np.int32))
    with pytest.raises(EnvironmentFailed, match=f"^(environment 1 of 2|an environment) .*{word}"):
        env.step(np.zeros(2, np.int32))


def test_an_odd_observation_of_a_later_reset_is_an_error_with_the_environment_and_the_part():
    env = Checked(lambda: Mistaken(**{"later reset": "wide"}), "the game")
    env.reset()
    with pytest.raises(EnvironmentFailed, match=r"^the game: the observation of reset is declared .* float32\[3, 1\]$"):
        env.reset()


def test_an_odd_last_observation_of_one_environment_is_an_error():
    env = FlatVectorEnv(UniformVectorEnv(2, spaces.Box(-1, 1, (1,)), spaces.Discrete(2)), name="lost")
    info = {"final_obs": np.array([None, np.full(1, np.nan)], object)}
    env.env.step = lambda actions: (np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool), np.array([False, True]), info)
    with pytest.raises(EnvironmentFailed, match="^environment 1 of 2 of lost: last observation must be a number"):
        env.step(np.zeros(2, np.int32))


@pytest.mark.parametrize(
    ("space", "mistake", "word"),
    [
        (spaces.Box(0, 255, (1,), np.uint8), {"observation": [[0.0], [0.5]]}, r"uint8\), but came as array\(\[0"),
        (spaces.Box(0, 255, (1,), np.uint8), {"observation": [[3], [300]]}, r"uint8\), but came as array\(\[300\]\)"),
        (spaces.Discrete(2), {"observation": [0, 7]}, r"declared as Discrete\(2\), but came as .*7"),
        (spaces.MultiBinary(1), {"observation": [[1], [3]]}, r"declared as MultiBinary\(1\), but .*\(\[3\]\)"),
        (spaces.Discrete(2), {"reward": 1.0}, r"rewards of a step must be an array \[2\], got \[\]"),
        (spaces.Discrete(2), {"terminated": [[0], [1]]}, r"terminated of a step must be an array \[2\], got \[2, 1\]"),
        (spaces.Discrete(2), {"truncated": None}, r"truncated of a step must be an array \[2\], got \[\]"),
    ],
)
def test_a_vector_environment_that_returns_something_else_is_an_error(space, mistake, word):
    env = FlatVectorEnv(UniformVectorEnv(2, space, spaces.Discrete(2)), name="Game-v0")
    fine = {"observation": np.zeros((2, *space.shape), np.int64), "reward": np.zeros(2), "terminated": [False, True]}
    parts = fine | {"truncated": np.zeros(2, bool)}
    env.env.step = lambda actions: (*(parts | {key: np.array(value) for key, value in mistake.items()}).values(), {})
    with pytest.raises(EnvironmentFailed, match=f"^(an environment of )?Game-v0: .*{word}"):
        env.step(np.zeros(2, np.int32))
    env.env.step = lambda actions: (*parts.values(), {})
    assert env.step(np.zeros(2, np.int32))[2].tolist() == [False, True]


@pytest.mark.filterwarnings("error:.*overflow")
def test_what_can_be_understood_is_accepted():
    output = play_two_steps(mistaken(observation="list", reward=[1.0]))
    assert output.observation.tolist() == [[0, 0, 0]] * 2
    assert output.reward.tolist() == [1, 1]
    huge = play_two_steps(mistaken(reward=1e300, observation=[1e300] * 3, space="doubles"))
    assert huge.reward.tolist() == [np.inf] * 2
    assert huge.observation.tolist() == [[np.inf] * 3] * 2
    spec = mistaken(space="names").spec()
    assert [name for name, _ in spec.observation_tensors()] == ["0", "2", "3", "plain"], "odd names become positions"
    with closing(mistaken(render="rgba").watch()) as env:
        picture = env.picture(env.reset(seed=1)[0])
    assert picture.shape == (20, 30, 3), "without transparency"
    assert (picture == 255).all()


def test_another_process_gives_the_same_episodes_and_is_named_if_it_takes_long(monkeypatch, caplog):
    monkeypatch.setattr(elsewhere, "_PATIENCE_SECONDS", 0.0)
    config, actions = Catch(), np.array([0, 1, 2])
    with closing(make_elsewhere(config, 3)) as there, closing(config.make(3)) as here:
        assert there.metadata == here.metadata
        np.testing.assert_array_equal(there.reset(seed=5)[0], here.reset(seed=5)[0])
        for _ in range(20):
            for one, other in zip(there.step(actions)[:4], here.step(actions)[:4], strict=True):
                np.testing.assert_array_equal(one, other)
    assert caplog.messages[0] == "an environment of suite 'catch': its make has not returned for 0 s"


def test_an_environment_that_hangs_ends_with_its_program():
    ours, theirs = multiprocessing.Pipe()
    code = f"from seed_rl.envs import elsewhere; elsewhere.CLOSE_SECONDS = 0.1; elsewhere.serve({theirs.fileno()})"
    with theirs:
        process = subprocess.Popen(children.python(code), pass_fds=[theirs.fileno()], start_new_session=True)
    ours.send(("make", (time.sleep, 1000), {}))
    assert not ours.poll(0.2), "it hangs"
    ours.close()
    assert process.wait(within(60)) == -signal.SIGKILL


def test_an_environment_that_is_only_known_here_is_made_here():
    class Local(Catch):
        suite = "local"

    with closing(make_elsewhere(Local(), 1)) as env:
        assert env.reset(seed=1)[0].shape == (1, 10, 5, 1)


def test_findings_are_lines_of_text(monkeypatch, caplog):
    spec, steps, ends = findings(PettingZoo(), seconds=0.0)
    assert spec.endswith("action masks of 9 values; 2 players")
    assert re.fullmatch("1 random steps, .* a second, with rewards from 0 to 0", steps)
    assert [ends, findings(Catch(rows=2), seconds=0.0)[2]] == ["0 ends of episodes", "1 ends of episodes"]
    monkeypatch.setattr("seed_rl.envs.elsewhere.LARGE_FRAME", 7_000)
    for size, warned in ((0, True), (40, False)):
        caplog.clear()
        probe_spec(Gym("tests.support.registered_envs:Echo-v0", options='{"senses": "wide"}', frame_size=size))
        assert ("Gym.frame_size" in caplog.text) is warned


def test_an_error_is_named_and_an_episode_ends_with_its_numbers_and_its_own_observation():
    class Flaky(Counted):
        own = np.zeros(3, np.int64)

        def _observe(self):
            self.own[:] = super()._observe()
            return self.own

        def step(self, action):
            *rest, info = super().step(action)
            if self._episode == 1:
                raise RuntimeError("lost its simulator")
            return *rest, {**info, "steps": self._steps, "level": np.array([7.0]), "is_success": np.True_, "map": "E1"}

    env = Checked(Flaky, "environment 2 of 8 of the game")
    env.reset(seed=3)
    assert env.step(0)[4] == {}
    last, _, *ends = env.step(0)
    assert ends == [True, False, {"steps": 2.0, "level": 7.0, "is_success": 1.0}]
    env.reset()
    assert last.tolist() == [3, 0, 2], "the reset wrote into the same array"
    with pytest.raises(EnvironmentFailed, match="^environment 2 of 8 of the game failed in step: RuntimeError: lost"):
        env.step(0)
