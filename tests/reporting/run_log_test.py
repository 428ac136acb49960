"""Rows of metrics of invented runs on an invented clock, and the bottleneck in a row."""

import dataclasses
import resource
import time

import numpy as np
import pytest

from seed_rl.inference.thread import InferenceStats
from seed_rl.reporting.metrics import EpisodeWindow
from seed_rl.reporting.run_log import RunLog, RunState, bottleneck

INTERVAL = 10.0


class Run:
    """A run with numbers and a clock that a test sets, and the only sink of its log."""

    def __init__(self):
        self.now = 500.0
        self.counters = {"env_frames": 4000, "agent_steps": 1000, "learner_updates": 50, "seconds": 77.0}
        self.gauges = {"episode_return": 3.5, "environments": 8}
        self.inference = {field.name: 7.0 for field in dataclasses.fields(InferenceStats)}
        self.rows, self.wall_times, self.closed = [], [], 0

    def state(self):
        return RunState(dict(self.counters), dict(self.gauges), dict(self.inference))

    def write(self, row, wall_time):
        assert not self.closed
        self.rows.append(dict(row))
        self.wall_times.append(wall_time)

    def close(self):
        self.closed += 1

    def passes(self, seconds, *, frames=0, **inference):
        """Time passes, and these numbers grow meanwhile."""
        self.now += seconds
        self.counters["env_frames"] += frames
        for name, growth in inference.items():
            self.inference[name] += growth


@pytest.fixture
def run():
    return Run()


@pytest.fixture
def log(run):
    return RunLog(run.state, [run], INTERVAL, clock=lambda: run.now)


def test_rates_shares_and_means_in_a_row_are_those_of_its_interval(run, log):
    log.add_update({"loss/total": 100.0, "early": 1.0})
    with log.waiting():
        run.passes(9.75, frames=1000, agent_steps=100, batches=10, padded_steps=50, waiting_seconds=3)
    assert log.summary_if_due(0) is None
    run.passes(0.25)
    log.summary_if_due(0)

    for loss in (1.0, 2.0, 6.0):
        log.add_update({"loss/total": loss})
    with log.waiting():
        run.passes(2, frames=100, agent_steps=300, batches=20, padded_steps=60, updates_behind=5)
    with log.waiting():
        run.passes(3, waiting_seconds=4, blocked_seconds=2)
    run.passes(15, frames=300, acting_seconds=9, groups_waiting_seconds=3, groups_stepping_seconds=9)
    run.gauges["environments"] = 5
    before = time.time()
    row = log.summary_if_due(0)
    assert run.rows[1:] == [row]
    assert before <= run.wall_times[-1] <= time.time()
    assert 0 <= row.pop("time/cpu") <= 1
    assert row == {
        "acted_steps": 407,
        "env_frames": 5400,
        "agent_steps": 1000,
        "learner_updates": 50,
        "seconds": 77.0,
        "episode_return": 3.5,
        "environments": 5,
        "frames_per_second": 400 / 20,
        "updates_per_second": 3 / 20,
        "loss/total": 3.0,
        "time/learner_waiting": 5 / 20,
        "time/inference_waiting": 4 / 20,
        "time/inference_blocked": 2 / 20,
        "time/inference_acting": 9 / 20,
        "time/actors_waiting": 3 / 12,
        "inference_batch_size": 300 / 20,
        "inference_padding": 60 / 300,
        "inference_updates_behind": 5 / 20,
    }


def test_each_part_of_the_frames_has_a_row_and_the_interval_its_own_rates(run):
    log = RunLog(run.state, [run], INTERVAL, frames_per_row=1000.0, clock=lambda: run.now)
    run.counters["env_frames"] = 4000
    summaries = []
    for seconds, frames, loss in ((1, 900, 3.0), (1, 200, 1.0), (2, 1700, 5.0), (6, 0, 7.0), (1, 700, 9.0)):
        log.add_update({"loss/total": loss})
        run.passes(seconds, frames=frames, acting_seconds=seconds / 2)
        summaries.append(log.summary_if_due(run.counters["env_frames"]))
    summaries.append(log.close())
    rows, shown = (
        [row and (row["env_frames"], row["frames_per_second"], row["loss/total"]) for row in found]
        for found in (run.rows, summaries)
    )
    assert rows == [(5100, 550.0, 2.0), (6800, 850.0, 5.0), (6800, 0.0, 7.0), (7500, 700.0, 9.0)]
    assert shown == [None, None, None, (6800, 280.0, 4.0), None, (7500, 700.0, 9.0)]
    assert all(row["time/inference_acting"] == 0.5 for row in [*run.rows, summaries[3]])
    assert RunLog(run.state, [run], INTERVAL).close() is None, "no update since the last row"
    assert (len(run.rows), run.closed) == (4, 2)


def test_work_that_took_longer_than_an_interval_is_shared_out(run, log):
    shares = []
    for seconds in (13, 0, 2):
        run.passes(10, acting_seconds=seconds)
        shares.append(log.summary_if_due(0)["time/inference_acting"])
    assert shares == pytest.approx([1.0, 0.3, 0.2])


def test_metrics_without_data_are_missing(run, log):
    run.passes(10, batches=1, padded_steps=2)  # totals are read while they grow: the steps come with the next row
    row = log.summary_if_due(0)
    assert row["frames_per_second"] == row["updates_per_second"] == row["time/learner_waiting"] == 0
    assert not {"loss/total", "inference_batch_size", "inference_padding", "time/actors_waiting"} & set(row)


def test_means_are_those_of_the_last_episodes():
    window = EpisodeWindow(100)
    assert window.means() == {}
    window.add(np.full(50, -100.0), np.full(50, 1))
    window.add(np.arange(100.0), np.full(100, 4))
    assert window.means() == {"episode_return": pytest.approx(49.5), "episode_length": 4.0}
    assert window.count == 150


IDLE = {"environments": 8, "actors": 4, "time/cpu": 0.5, "time/learner_waiting": 0.9, "time/actors_waiting": 0.9}
SERVING = {"inference_batch_size": 2.0, "time/inference_blocked": 0.0, "time/inference_acting": 0.1}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (SERVING | {"environments": 0}, "actors: none connected"),
        (SERVING | {"time/learner_waiting": 0.01, "time/cpu": 1.0}, "learner: smaller network or faster device, all"),
        (SERVING | {"time/inference_blocked": 0.6}, "learner: smaller network or faster device"),
        (SERVING | {"time/learner_waiting": 0.01, "time/inference_acting": 0.95}, "learner: smaller network"),
        (SERVING | {"time/inference_acting": 0.95, "time/cpu": 1.0}, "inference: larger batches or faster device, all"),
        (SERVING | {"time/actors_waiting": 0.2}, "actors: add environments or processes"),
        ({"time/inference_blocked": 0.0, "time/inference_acting": 0.1}, "actors: 4 connected, none answers"),
        (SERVING | {"environments_hanging": 4.0}, "actors: 4 environments wait for one that hangs"),
        (SERVING | {"time/cpu": 0.99}, "cores: all are busy"),
        (SERVING, "latency: add groups of environments to each actor"),
    ],
)
def test_the_part_that_never_waits_is_the_bottleneck(row, words):
    assert bottleneck(IDLE | row).startswith(words)
    slower = "learner: bfloat16 is slow on this device; dtype = 'auto' chooses float32"
    assert bottleneck(IDLE | row, loses_by_bfloat16=True).startswith(slower if words.startswith("learner") else words)


def test_a_row_is_written_although_no_file_can_be_opened(run, log, caplog):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        for _ in range(2):
            run.passes(INTERVAL, frames=400)
            log.summary_if_due(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    run.passes(INTERVAL, frames=400)
    log.summary_if_due(0)
    assert [row["frames_per_second"] for row in run.rows] == [40.0] * 3
    assert ["time/cpu" in row for row in run.rows] == [False, False, True]
    sentence = "CPU utilisation counters can't be read (Too many open files): metrics lack time/cpu"
    assert [record.message for record in caplog.records] == [sentence, "CPU utilisation counters can be read again"]
