"""Statistics over runs and their intervals."""

import itertools

import numpy as np
import pytest

from seed_rl.evaluation.statistics import interquartile_mean, median, performance_profile


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_tasks():
    estimate = interquartile_mean([np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0, 1000.0])])
    assert estimate.value == pytest.approx(np.mean([2, 3, 4, 5]))
    assert interquartile_mean([np.array([1.0, 3.0, 8.0])]).value == pytest.approx(4.0), "the mean of three"


def test_the_interval_holds_95_percent_of_all_means_of_runs_drawn_again():
    scores = np.array([0.0, 1.0, 5.0, 7.0])
    means = [np.mean(sorted(drawn)[1:3]) for drawn in itertools.product(scores, repeat=4)]
    estimate = interquartile_mean([scores])
    assert estimate[1:] == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.5)
    assert interquartile_mean([scores]) == estimate, "the same each time"


def test_runs_are_drawn_within_their_task():
    estimate = interquartile_mean([np.array([1.0, 1.0]), np.array([9.0, 9.0])])
    assert estimate == (5.0, 5.0, 5.0), "were they drawn from all, some means would be of one task only"


def test_the_median_is_over_tasks_of_the_means_of_their_runs():
    tasks = [np.array([0.0, 2.0]), np.array([1.0, 5.0]), np.array([4.0, 100.0])]
    assert median(tasks) == (3.0, 1.0, 5.0)


def test_of_single_runs_whole_tasks_are_drawn_if_asked():
    scores = np.array([0.0, 1.0, 5.0, 7.0])
    tasks = list(scores[:, None])
    np.testing.assert_allclose(interquartile_mean(tasks, "tasks"), interquartile_mean([scores]), atol=0.5)
    assert np.isnan(interquartile_mean(tasks)[1:]).all()
    assert np.isnan(median([scores], "tasks")[1:]).all(), "there is only one task"
    same = performance_profile([np.array([2.0, 8.0]), np.array([8.0, 2.0])], np.array([5.0]), "tasks")
    np.testing.assert_array_equal(same, [[0.5]] * 3), "were runs drawn, some shares would be 0"


def test_each_moment_of_curves_has_its_own_estimate_and_single_runs_have_no_interval():
    curves = np.array([[0.0, 10.0], [2.0, 30.0]])
    estimate = interquartile_mean([curves])
    np.testing.assert_allclose(estimate, [[1.0, 20.0], [0.0, 10.0], [2.0, 30.0]])
    alone = interquartile_mean([curves[:1], curves])
    assert alone.value.shape == (2,)
    assert np.isnan([alone.low, alone.high]).all()


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    profile = performance_profile([np.array([1.0, 2.0]), np.array([3.0, 3.0])], np.array([0.0, 1.0, 2.5, 3.0]))
    np.testing.assert_allclose(profile.value, [1.0, 0.75, 0.5, 0.0])
    np.testing.assert_allclose(profile.low, [1.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(profile.high, [1.0, 1.0, 0.5, 0.0])
