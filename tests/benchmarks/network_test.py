"""What is said of a network that was measured, and environments that only take their time."""

import argparse

import numpy as np
import pytest

from benchmarks import network
from benchmarks.paced import Cores, Paced
from benchmarks.slow_network import Passed
from seed_rl.envs.base import spec_of


def row(envs, groups, *shares):
    delayed = [{"share": {"median": share, "repeats": [share]}} for share in shares]
    return {"envs": envs, "groups": groups, "group_size": envs // groups, "delayed": delayed}


def test_the_smallest_setting_that_keeps_the_rate_is_recommended():
    rows = [row(64, 2, 0.89, 0.5), row(64, 4, 0.9, 0.6), row(64, 8, 0.97, 0.7), row(256, 2, 0.99, 0.8)]
    rows.append({"envs": 1, "groups": 1, "group_size": 1, "failed": "no actor"})
    assert network.recommendations({"rtt_ms": [5.0, 20.0], "rows": rows}) == [
        "least for 90% of the local rate at 5 ms: 4 groups of 16 environments, 0.90",
        "least for 90% of the local rate at 20 ms: none of these",
    ]


def test_shares_are_of_the_rates_before_and_after(monkeypatch):
    rates = {0.0: iter([100.0, 200.0, 100.0, 100.0, 50.0]), 5.0: iter([150.0, 50.0]), 20.0: iter([75.0, 15.0])}
    asked = []

    def measured(line, arguments, rtt_ms, bytes_each):
        asked.append(rtt_ms)
        return next(rates[rtt_ms])

    monkeypatch.setattr(network, "_rate", measured)
    result = network._rounds(None, argparse.Namespace(rtt_ms=[5.0, 20.0], repeats=2), 1.0)
    assert asked == [0, 5, 0, 20, 0, 5, 0, 20, 0]
    assert [delayed["share"]["repeats"] for delayed in result["delayed"]] == [[1.0, 0.5], [0.5, 0.2]]
    assert result["local"]["median"] == 100


def test_a_rate_is_counted_in_observations(monkeypatch):
    class Network:
        states = iter([Passed(1000, 0, 1), Passed(9000, 0, 1), Passed(9000, 0, 1), Passed(9000, 0, 1)])

        def __init__(self):
            self.lines = []

        def change(self, line):
            self.lines.append(line)

        def passed(self):
            return next(self.states)

    clock = iter([10.0, 12.0, 20.0, 22.0])
    monkeypatch.setattr(network.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(network.time, "sleep", lambda seconds: None)
    arguments = argparse.Namespace(mbit=8.0, pause=0.1, seconds=2.0)
    through = Network()
    assert network._rate(through, arguments, 20.0, bytes_each=100.0) == 40
    assert through.lines == [(0.01, 1e6)], "half of the round trip each way, in bytes"
    with pytest.raises(network.MeasurementFailed, match="nothing came through"):
        network._rate(through, arguments, 0.0, 100.0)


def test_groups_take_turns_on_a_core():
    one, two = Cores(1), Cores(2)
    assert [one.take(2.0, now) for now in (10.0, 10.5, 20.0)] == [12.0, 14.0, 22.0]
    assert [two.take(2.0, now) for now in (10.0, 10.5, 10.6)] == [12.0, 12.5, 14.0]


def test_paced_environments_are_like_pong():
    config = Paced(step_ms=0.0)
    env = config.make(3)
    observation, _ = env.reset()
    after, reward, terminated, truncated, _ = env.step(np.zeros(3, np.int32))
    assert observation.shape == after.shape == (3, 84, 84, 1)
    assert (observation != after).any()
    assert not np.any([reward, terminated, truncated])
    assert spec_of(env) == config.spec()
    with pytest.raises(ValueError, match="Paced.cores must be at least 1"):
        Paced(cores=0)
