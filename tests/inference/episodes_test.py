import numpy as np

from seed_rl.inference.episodes import EpisodeTracker


def test_adds_up_rewards_until_done():
    tracker = EpisodeTracker(3)
    ids = np.array([2, 0])
    assert tracker.step(ids, np.array([1.0, 2.0]), np.array([False, False])) is None
    ended = tracker.step(ids, np.array([0.5, 4.0]), np.array([True, False]))
    assert ended.env_ids.tolist() == [2]
    assert ended.returns.tolist() == [1.5]
    assert ended.lengths.tolist() == [2]
    ended = tracker.step(ids, np.array([1.0, 8.0]), np.array([True, True]))
    assert ended.returns.tolist() == [1.0, 14.0]
    assert ended.lengths.tolist() == [1, 3]


def test_a_restart_forgets_the_unfinished_episode_of_these_environments_only():
    tracker = EpisodeTracker(2)
    both = np.array([0, 1])
    tracker.step(both, np.array([1.0, 1.0]), np.array([False, False]))
    tracker.restart(np.array([0]))
    ended = tracker.step(both, np.array([1.0, 1.0]), np.array([True, True]))
    assert ended.returns.tolist() == [1.0, 2.0]
    assert ended.lengths.tolist() == [1, 2]
