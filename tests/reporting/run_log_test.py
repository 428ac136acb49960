"""Rows of metrics from made-up runs on a made-up clock."""

from types import SimpleNamespace

import pytest

from seed_rl.inference.thread import InferenceStats
from seed_rl.learner import run_log
from seed_rl.reporting.run_log import RunLog, RunState

INTERVAL = 10.0


class Run:
    """A run whose every number a test sets; time passes when the test says so."""

    def __init__(self):
        self.now = 500.0
        self.counters = {"env_frames": 4000, "agent_steps": 1000, "learner_updates": 50, "seconds": 77.0}
        self.gauges = {"episode_return": 3.5, "environments": 8}
        self.stats = {
            "agent_steps": 640,
            "batches": 40,
            "padded_steps": 64,
            "waiting_seconds": 5.0,
            "blocked_seconds": 6.0,
            "acting_seconds": 7.0,
            "groups_waiting_seconds": 100.0,
            "groups_stepping_seconds": 200.0,
        }
        self.rows, self.wall_times, self.closed = [], [], 0

    def state(self):
        return RunState(dict(self.counters), dict(self.gauges), inference=InferenceStats(**self.stats))

    def write(self, row, wall_time):
        assert not self.closed
        self.rows.append(dict(row))
        self.wall_times.append(wall_time)

    def close(self):
        self.closed += 1

    def passes(self, seconds, *, frames=0, **stats):
        """Time passes, and these numbers grow meanwhile."""
        self.now += seconds
        self.counters["env_frames"] += frames
        for name, growth in stats.items():
            self.stats[name] += growth


@pytest.fixture
def run(monkeypatch):
    run = Run()
    clock = SimpleNamespace(monotonic=lambda: run.now, time=lambda: 1e9 + run.now)
    monkeypatch.setattr(run_log, "time", clock)
    return run


@pytest.fixture
def log(run):
    return RunLog(run.state, run, INTERVAL)


def test_no_row_before_the_interval_is_over(run, log):
    log.add_update({"loss": 1.0}, 0.5)
    assert log.row_if_due() is None
    run.passes(9.75)
    assert log.row_if_due() is None
    assert run.rows == []
    run.passes(0.25)
    row = log.row_if_due()
    assert row is not None
    assert run.rows == [row]
    assert run.wall_times == [1e9 + 510]
    assert log.row_if_due() is None, "the next interval has begun"


def test_rates_and_shares_are_those_of_the_interval(run, log):
    for _ in range(3):
        log.add_update({}, 0.0)
    with log.waiting():
        run.passes(2, frames=100)
    with log.waiting():
        run.passes(3, waiting_seconds=4, blocked_seconds=2)
    run.passes(15, frames=300, acting_seconds=9, groups_waiting_seconds=3, groups_stepping_seconds=9)
    row = log.row_if_due()
    assert row["frames_per_second"] == 400 / 20
    assert row["updates_per_second"] == 3 / 20
    assert row["time/learner_waiting"] == 5 / 20
    assert row["time/inference_waiting"] == 4 / 20
    assert row["time/inference_blocked"] == 2 / 20
    assert row["time/inference_acting"] == 9 / 20
    assert row["time/actors_waiting"] == 3 / 12
    assert 0 <= row["time/cpu"] <= 1


def test_without_a_message_nothing_is_said_of_the_actors(run, log):
    run.passes(10)
    assert "time/actors_waiting" not in log.row_if_due()


def test_batches_are_described_by_their_mean_size_and_the_share_of_padding(run, log):
    run.passes(10, agent_steps=300, batches=20, padded_steps=60)
    row = log.row_if_due()
    assert row["inference_batch_size"] == 15
    assert row["inference_padding"] == 0.2


def test_means_over_the_updates_of_the_interval(run, log):
    log.add_update({"loss/total": 1.0, "gradient_norm": 10.0}, 0.25)
    log.add_update({"loss/total": 5.0, "gradient_norm": 40.0}, 1.0)
    run.passes(10)
    row = log.row_if_due()
    assert row["loss/total"] == 3.0
    assert row["gradient_norm"] == 25.0
    assert row["queue_fill"] == 0.625


def test_counters_and_gauges_are_reported_as_they_are(run, log):
    run.passes(10, frames=8)
    run.gauges["environments"] = 5
    row = log.row_if_due()
    expected = {"env_frames": 4008, "agent_steps": 1000, "learner_updates": 50, "seconds": 77.0}
    assert expected.items() <= row.items()
    assert {"episode_return": 3.5, "environments": 5}.items() <= row.items()


def test_each_interval_begins_anew(run, log):
    log.add_update({"loss/total": 100.0, "early": 1.0}, 1.0)
    with log.waiting():
        run.passes(10, frames=1000, agent_steps=100, batches=10, padded_steps=50, waiting_seconds=3)
    log.row_if_due()
    log.add_update({"loss/total": 2.0}, 0.5)
    run.passes(12, frames=240, agent_steps=50, batches=10, padded_steps=5, blocked_seconds=6, acting_seconds=3)
    row = log.row_if_due()
    assert row["frames_per_second"] == 20
    assert row["updates_per_second"] == 1 / 12
    assert (row["loss/total"], row["queue_fill"]) == (2.0, 0.5)
    assert "early" not in row
    assert (row["inference_batch_size"], row["inference_padding"]) == (5, 0.1)
    assert (row["time/learner_waiting"], row["time/inference_waiting"]) == (0, 0)
    assert (row["time/inference_blocked"], row["time/inference_acting"]) == (0.5, 0.25)


def test_an_interval_in_which_nothing_happened_has_a_row_without_means(run, log):
    run.passes(10)
    row = log.row_if_due()
    assert row["frames_per_second"] == row["updates_per_second"] == row["time/learner_waiting"] == 0
    assert not {"queue_fill", "inference_batch_size", "inference_padding"} & set(row)


def test_close_writes_what_the_last_shorter_interval_brought(run, log):
    run.passes(10)
    log.row_if_due()
    log.add_update({"loss/total": 7.0}, 1.0)
    run.passes(4, frames=100)
    row = log.close()
    assert len(run.rows) == 2
    assert run.rows[-1] == row
    assert run.rows[-1]["frames_per_second"] == 25
    assert run.rows[-1]["updates_per_second"] == 0.25
    assert (run.rows[-1]["loss/total"], run.rows[-1]["queue_fill"]) == (7.0, 1.0)
    assert run.closed == 1


def test_close_writes_no_row_without_updates(run, log):
    log.add_update({"loss/total": 7.0}, 1.0)
    run.passes(10)
    log.row_if_due()
    run.passes(4)
    assert log.close() is None
    assert len(run.rows) == 1
    assert run.closed == 1


def test_a_state_torn_between_two_numbers_of_inference_does_no_harm(run, log):
    run.passes(10, batches=1, padded_steps=2)
    assert "inference_padding" not in log.row_if_due()
