"""That latencies are measured as they are said to be; how long they are is not for a test."""

import numpy as np
import pytest

from benchmarks import pacing
from benchmarks.failures import MeasurementFailed
from benchmarks.recording import Recording, record
from seed_rl.envs.catch import Catch
from tests.support.counting import Counting


def test_percentiles_are_latencies_that_occurred():
    seconds = np.random.default_rng(0).permutation(np.arange(1, 101)) / 1000
    assert pacing.percentiles(seconds) == pytest.approx({"p50": 50, "p90": 90, "p99": 99, "max": 100})
    assert pacing.percentiles(np.array([0.002])) == pytest.approx(dict.fromkeys(("p50", "p90", "p99", "max"), 2))
    with pytest.raises(MeasurementFailed, match="no observation was answered"):
        pacing.percentiles(np.zeros(0))


def test_a_pause_counts_for_each_observation_that_a_clock_would_have_sent():
    clocked = pacing.as_if_clocked(np.array([0.1, 1.0, 0.3]), 0.3)
    assert sorted(clocked.tolist()) == pytest.approx([0.1, 0.1, 0.3, 0.4, 0.7, 1.0])
    assert pacing.as_if_clocked(np.array([0.1, 1.0]), 0.0).tolist() == [0.1, 1.0]
    assert len(pacing.as_if_clocked(np.zeros(0), 0.3)) == 0


def test_a_pause_moves_the_clocked_percentile_only():
    seconds = np.array([0.001] * 999 + [1.0])
    assert pacing.percentiles(seconds)["p99"] == pytest.approx(1)
    assert pacing.percentiles(pacing.as_if_clocked(seconds, 0.01))["p99"] > 800


def test_step_times_vary_around_their_mean():
    times = pacing.step_times(np.random.default_rng(0), 0.05, 0.2, 10_000)
    assert times.min() >= 0.04
    assert times.max() <= 0.06
    assert times.mean() == pytest.approx(0.05, rel=0.01)
    assert times.std() > 0.005
    assert not pacing.step_times(np.random.default_rng(0), 0.0, 0.2, 5).any()


def test_step_time_and_latency_make_the_rate():
    step = pacing.step_for_rate(streams=8, group_size=4, rate=1000, latency=0.012)
    assert step == pytest.approx(0.020)
    assert pacing.rate_at(8, 4, step, 0.012) == pytest.approx(1000)
    assert pacing.step_for_rate(streams=8, group_size=4, rate=1000, latency=0.1) == 0


def test_recorded_steps_are_what_environments_say(tmp_path):
    path = str(tmp_path / "steps.npz")
    assert record(Counting(shortest_episode=3), num_envs=5, steps=20, path=path) > 0
    recording = Recording(path, group_size=2)
    assert (recording.groups, recording.steps) == (2, 20)
    first = recording.output(0, 0)
    assert first.done.all()
    assert not first.reward.any()
    later = recording.output(1, 3)  # environments 2 and 3, whose episodes have 5 and 3 steps
    assert later.done.tolist() == [False, True]
    assert later.observation[:, 3].tolist() == [3, 3]  # steps since the reset
    np.testing.assert_array_equal(recording.output(3, 23).observation, later.observation)
    with pytest.raises(ValueError, match="5 environments were recorded"):
        Recording(path, group_size=6)


def test_rewards_and_ends_are_recorded(tmp_path):
    path = str(tmp_path / "steps.npz")
    record(Catch(), num_envs=16, steps=60, path=path)
    outputs = [Recording(path, 16).output(0, step) for step in range(60)]
    assert {-1.0, 1.0} <= {float(reward) for output in outputs for reward in output.reward}
    assert sum(output.done.sum() for output in outputs) > 16
