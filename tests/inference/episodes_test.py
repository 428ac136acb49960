import numpy as np

from seed_rl.inference.episodes import EpisodeTracker


def taken(tracker):
    """Environment, return and length of each episode since the last call."""
    return [row for episodes in tracker.take() for row in zip(*(array.tolist() for array in episodes), strict=True)]


def step(tracker, env_ids, reward, done, last=(False, False), restarted=False):
    tracker.step(env_ids, np.full(len(env_ids), restarted), reward, done, np.array(last))


def test_rewards_add_up_until_done_and_a_restart_forgets_those_of_its_environments():
    tracker, ids = EpisodeTracker(3), np.array([2, 0])
    step(tracker, ids, np.array([1.0, 2.0]), np.array([False, False]))
    assert taken(tracker) == []
    step(tracker, ids, np.array([0.5, 4.0]), np.array([True, False]))
    step(tracker, ids, np.array([1.0, 8.0]), np.array([False, True]))
    assert taken(tracker) == [(2, 1.5, 2), (0, 14.0, 3)]
    step(tracker, ids, np.array([1.0, 1.0]), np.array([False, False]))
    step(tracker, ids, np.array([0.0, 1.0]), np.array([True, False]), restarted=[True, False])
    assert tracker.longest == 2
    step(tracker, ids, np.array([1.0, 1.0]), np.array([True, True]))
    assert taken(tracker) == [(2, 1.0, 1), (0, 3.0, 3)]


def test_the_step_after_the_last_of_an_episode_is_none_of_the_next():
    tracker, both, neither = EpisodeTracker(2), np.array([0, 1]), np.array([False, False])
    step(tracker, both, np.array([1.0, 2.0]), neither, last=[True, False])
    assert taken(tracker) == [(0, 1.0, 1)]
    step(tracker, np.array([0]), np.array([0.0]), np.array([True]), last=[False])  # alone, or with all others
    step(tracker, both, np.array([4.0, 8.0]), np.array([True, True]), last=[False, True])
    assert taken(tracker) == [(0, 4.0, 1), (1, 10.0, 2)]
    step(tracker, both, np.array([1.0, 0.0]), np.array([False, True]))
    step(tracker, both, np.array([1.0, 1.0]), np.array([True, True]))
    assert taken(tracker) == [(0, 2.0, 2), (1, 1.0, 1)]


def test_a_longest_episode_is_cut_off_and_counted():
    tracker = EpisodeTracker(1, max_steps=2)
    for reward in (0.0, 1.0, 2.0, 4.0, 8.0):
        step(tracker, np.array([0]), np.array([reward]), np.array([False]), [False], restarted=reward == 0)
    assert taken(tracker) == [(0, 3.0, 2), (0, 12.0, 2)]
