"""The outputs of environments whose episodes end, as the learner gets them."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from seed_rl.envs.vector.steps import Steps
from seed_rl.envs.vector.wrappers import FlatVectorEnv

KEY = spaces.Dict({"at": spaces.Box(0, 99, (2,), np.int32), "kind": spaces.Discrete(3)})


class Walk(gymnasium.Env):
    """Ends after `length` steps; its observation holds the episode and the step in it. The reward is the action."""

    action_space = spaces.Discrete(100)

    def __init__(self, length, truncates, space=KEY):
        self.observation_space = space
        self._length, self._truncates, self._episode = length, truncates, -1

    def _observe(self):
        at = np.array([self._episode, self._step], np.int32)
        return {"at": at, "kind": self._step % 3} if self.observation_space is KEY else at

    def reset(self, *, seed=None, options=None):
        self._episode, self._step = self._episode + 1, 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        ended = self._step == self._length
        info = {"steps": self._step, "name": "walk"}
        return self._observe(), float(action), ended and not self._truncates, ended and self._truncates, info


def walks(space=KEY, mode=AutoresetMode.SAME_STEP):
    """Environments of one step that is truncated, of two that are truncated, and of two with a terminal state."""
    makers = [lambda n=n, t=t: Walk(n, t, space) for n, t in ((1, True), (2, True), (2, False))]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def changed(env, change):
    """Environments whose results of a step are changed."""
    env.step = lambda actions, step=env.step: change(*step(actions))
    return env


def rows(output):
    """Reward, done, last, episode and step of each environment in an output."""
    at = output.observation["at"] if isinstance(output.observation, dict) else output.observation
    fields = (output.reward, output.done, output.last, at)
    return [(*map(int, (reward, done, last)), *at.tolist()) for reward, done, last, at in zip(*fields, strict=True)]


EXPECTED = [
    [(0, 1, 0, 0, 0), (0, 1, 0, 0, 0), (0, 1, 0, 0, 0)],
    [(1, 0, 1, 0, 1), (2, 0, 0, 0, 1), (3, 0, 0, 0, 1)],
    [(0, 1, 0, 1, 0)],  # the first alone, while the others wait with actions 5 and 6
    [(7, 0, 1, 1, 1), (5, 0, 1, 0, 2), (6, 1, 0, 1, 0)],
    [(0, 1, 0, 2, 0), (0, 1, 0, 1, 0)],
    [(11, 0, 1, 2, 1), (12, 0, 0, 1, 1), (10, 0, 0, 1, 1)],
]
ACTIONS = [[1, 2, 3], [4, 5, 6], [7], [8, 9, 10], [11, 12]]


@pytest.mark.parametrize("space", [KEY, KEY["at"]], ids=["a dictionary", "one tensor"])
def test_a_truncated_episode_has_a_step_more_with_its_last_observation(space):
    steps = Steps(FlatVectorEnv(walks(space)), shows_last=True)
    outputs = [steps.reset(seed=1), *(steps.step(np.array(actions)) for actions in ACTIONS)]
    assert [rows(output) for output in outputs] == EXPECTED
    assert steps.numbers == [(0, "steps", 1.0)]
    if space is KEY:
        assert outputs[3].observation["kind"].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_an_episode_that_is_terminated_and_truncated_is_terminated():
    as_well = lambda seen, reward, ended, cut, info: (seen, reward, ended | cut, cut, info)  # noqa: E731
    steps = Steps(changed(walks(KEY["at"]), as_well), shows_last=True)
    steps.reset(seed=1)
    assert rows(steps.step(np.array([1, 2, 3]))) == [(1, 1, 0, 1, 0), (2, 0, 0, 0, 1), (3, 0, 0, 0, 1)]


def test_without_its_last_observation_an_environment_is_where_it_was_before():
    steps = Steps(changed(walks(KEY["at"]), lambda *results: (*results[:4], {})), shows_last=True)
    outputs = [steps.reset(seed=1), *(steps.step(np.array(actions)) for actions in ACTIONS)]
    seen = [[(*row[:4], row[4] - row[2]) for row in expected] for expected in EXPECTED]
    assert [rows(output) for output in outputs] == seen


def test_environments_that_begin_a_step_late_show_every_last_state_and_wait_for_none():
    steps = Steps(FlatVectorEnv(walks(mode=AutoresetMode.NEXT_STEP)), shows_last=True)
    steps.reset(seed=1)
    outputs, numbers = [], []
    for _ in range(3):
        outputs.append(steps.step(np.array([1, 2, 3])))
        numbers.append(steps.numbers)
    assert numbers == [[(0, "steps", 1.0)], [(1, "steps", 2.0), (2, "steps", 2.0)], [(0, "steps", 1.0)]]
    assert [rows(output) for output in outputs] == [
        [(1, 0, 1, 0, 1), (2, 0, 0, 0, 1), (3, 0, 0, 0, 1)],
        [(0, 1, 0, 1, 0), (2, 0, 1, 0, 2), (3, 1, 1, 0, 2)],
        [(1, 0, 1, 1, 1), (0, 1, 0, 1, 0), (0, 1, 0, 1, 0)],
    ]
