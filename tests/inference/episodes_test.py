import numpy as np

from seed_rl.inference.episodes import EpisodeTracker


def taken(tracker):
    """Environment, return and length of each episode since the last call."""
    return [row for episodes in tracker.take() for row in zip(*(array.tolist() for array in episodes), strict=True)]


def test_adds_up_rewards_until_done():
    tracker, ids = EpisodeTracker(3), np.array([2, 0])
    tracker.step(ids, np.array([1.0, 2.0]), np.array([False, False]))
    assert taken(tracker) == []
    tracker.step(ids, np.array([0.5, 4.0]), np.array([True, False]))
    tracker.step(ids, np.array([1.0, 8.0]), np.array([True, True]))
    assert taken(tracker) == [(2, 1.5, 2), (2, 1.0, 1), (0, 14.0, 3)]
    assert taken(tracker) == [], "each once"


def test_a_restart_forgets_the_unfinished_episode_of_these_environments_only():
    tracker, both = EpisodeTracker(2), np.array([0, 1])
    tracker.step(both, np.array([1.0, 1.0]), np.array([False, False]))
    tracker.restart(np.array([0]))
    tracker.step(both, np.array([1.0, 1.0]), np.array([True, True]))
    assert taken(tracker) == [(0, 1.0, 1), (1, 2.0, 2)]
