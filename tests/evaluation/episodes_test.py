import itertools
import math
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.elsewhere import make_elsewhere
from seed_rl.evaluation.episodes import Played, play
from seed_rl.evaluation.policy import Policy
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig
from tests.support.still import Still, counted


@pytest.fixture
def policy():
    spec = Counting().spec()
    return Policy(CountingAgentConfig().build(spec, 0, 0), spec)


def test_each_environment_plays_its_share_so_that_short_episodes_are_not_favoured(policy):
    played = play(policy, Counting().make(3), 20, seed=1)  # episodes of 5, 6 and 7 steps
    assert Counter(played.lengths.tolist()) == {5: 7, 6: 7, 7: 6}, "of the first 20 to end, 8 have 5 steps"
    assert play(policy, Counting().make(3), 2, seed=1).lengths.tolist() == [5, 6]


@pytest.mark.parametrize(("max_steps", "lengths"), [(None, [2, 2, 3, 3, 4, 4, 2]), (3, [2, 2, 3, 3, 3, 3, 1])])
def test_an_episode_whose_end_is_reported_a_step_late_is_as_long_as_in_training(max_steps, lengths):
    results = []
    for mode in ("Same", "Next"):
        with closing(make_elsewhere(counted(mode), 2)) as env:
            results.append(play(Still(), env, 7, seed=1, max_steps=max_steps))
    assert [played.lengths.tolist() for played in results] == [lengths] * 2
    assert results[0].returns.tolist() == results[1].returns.tolist()


def test_a_return_is_the_sum_of_an_episodes_rewards(policy):
    seen = []
    played = play(policy, Counting().make(2), 4, seed=10, on_output=seen.append)
    rewards, done = np.array([output.reward for output in seen]), np.array([output.done for output in seen])
    assert rewards.max() > 1, "nothing is clipped"
    first = [rewards[begin + 1 : end + 1, 0].sum() for begin, end in itertools.pairwise(np.flatnonzero(done[:, 0]))]
    assert sorted(played.returns[played.lengths == 5]) == sorted(first)
    assert done[0].all(), "from before the first action"
    assert done[-1].any(), "the last output is the last end"


def test_a_summary_has_the_usual_statistics():
    summary = Played(np.array([1.0, 2.0, 3.0, 10.0]), np.array([5, 5, 6, 8])).summary()
    assert summary == {
        "episodes": 4,
        "mean": 4.0,
        "standard_error": pytest.approx(math.sqrt((9 + 4 + 1 + 36) / 3) / 2),
        "median": 2.5,
        "min": 1.0,
        "max": 10.0,
        "mean_length": 6.0,
    }
    two_games = Played(np.array([1.0, 3.0, 2.0, 10.0]), np.array([5, 5, 8, 8])).summary(players=2)
    assert two_games["standard_error"] == pytest.approx(math.sqrt(2 * 2**2) / math.sqrt(2)), "of the means 2 and 6"
    assert math.isnan(Played(np.array([1.0]), np.array([5])).summary()["standard_error"])
    nothing = Played(np.array([]), np.array([])).summary(players=2)
    assert (nothing["episodes"], math.isnan(nothing["mean"])) == (0, True)
