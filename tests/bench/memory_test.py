"""Lines through memory, and a learner whose memory is that of its tensors."""

import argparse
import contextlib

import numpy as np
import pytest

from seed_rl.bench import memory
from seed_rl.bench.children import ChildFailed
from seed_rl.bench.product import State
from seed_rl.bench.usage import ProcessUse


def test_a_line_is_found_with_its_residual():
    assert memory.line_fit([1, 2, 4], [5, 7, 11]) == pytest.approx({"slope": 2, "intercept": 3, "residual": 0})
    bent = memory.line_fit([0, 1, 2], [0, 4, 2])
    assert bent["slope"] == pytest.approx(1)
    assert bent["intercept"] == pytest.approx(1)
    assert bent["residual"] == pytest.approx(2 / 4)
    assert memory.line_fit([0, 1], [3, 3])["residual"] == 0
    with pytest.raises(ValueError, match="two different"):
        memory.line_fit([2, 2], [1, 5])


def test_drift_compares_the_thirds():
    resident = np.array([1.0, 1.0, 1.1, 1.2, 1.25, 1.35]) * 1e9
    moved = memory.drift(np.arange(6) * 10, resident)
    assert moved["first_third"] == pytest.approx(1e9)
    assert moved["last_third"] == pytest.approx(1.3e9)
    assert moved["growth"] == pytest.approx(0.3)
    assert 20_000 < moved["mb_per_hour"] < 30_000
    steady = memory.drift([0, 10, 20], [5e8, 5e8, 5e8])
    assert (steady["growth"], steady["mb_per_hour"]) == (0, 0)
    with pytest.raises(ValueError, match="--minutes is too short"):
        memory.drift([0, 10], [1, 1])


class Growing:
    """A product whose learner grows by 1 MB at every look, and which may lose an actor."""

    def __init__(self, lost_at: int):
        self._looks = 0
        self._lost_at = lost_at

    def wait_until(self, reached, timeout, what):
        assert not reached([{"learner_updates": 0, "environments": 4, "unrecorded_steps": 0, "seconds": 1.0}])

    def state(self) -> State:
        self._looks += 1
        actors = 2 if self._looks < self._lost_at else 1
        return State([], ProcessUse(1, 0.0, 10**6 * self._looks, 0), ProcessUse(actors, 0.0, 10**6, 0))


@pytest.mark.parametrize("lost_at", [3, 1000])
def test_looks_over_a_run(monkeypatch, lost_at):
    run = contextlib.nullcontext(Growing(lost_at))
    monkeypatch.setattr(memory, "product", lambda command, arguments: run)
    if lost_at == 3:
        with pytest.raises(ChildFailed, match="1 of 2 actors are left"):
            memory.over_a_run([], 4, seconds=0.2, sample=0.02, warm_up=0)
        return
    result = memory.over_a_run([], 4, seconds=0.2, sample=0.02, warm_up=0)
    assert 8 <= len(result["samples"]) <= 12
    assert result["learner"]["mb_per_hour"] == pytest.approx(3600 / 0.02, rel=0.2)
    assert result["learner"]["growth"] > 0.5
    assert result["actors"]["growth"] == 0


def test_resident_memory_grows_with_the_unrolls():
    parser = argparse.ArgumentParser()
    memory.add_arguments(parser)
    flags = ["--gin_file=catch/vtrace", "--gin_param=Catch.rows=80", "--gin_param=Catch.columns=80"]
    flags += ["--unrolls=64,2624", "--minutes=0", "--repeats=1"]
    result = memory.measure(parser.parse_args(flags))
    assert "run" not in result
    unrolls = result["unrolls"]
    small, large = unrolls["rows"]
    assert large["unrolls"] - small["unrolls"] == 2560
    assert large["store_bytes"] - small["store_bytes"] == 2560 * unrolls["each"]
    assert unrolls["each"] > 21 * 80 * 80
    assert 0.8 < unrolls["ratio"] < 1.3
    assert "resident bytes per unroll" in memory.table(result)


@pytest.mark.parametrize("flag", ["--unrolls=1,x", "--unrolls=5", "--unrolls=0,5"])
def test_wrong_flags_are_refused(flag):
    parser = argparse.ArgumentParser()
    memory.add_arguments(parser)
    with pytest.raises(ValueError, match="--unrolls takes"):
        memory.measure(parser.parse_args([flag]))


def test_a_run_too_short_for_its_looks_is_refused():
    parser = argparse.ArgumentParser()
    memory.add_arguments(parser)
    with pytest.raises(ValueError, match="--minutes=0.3 is too short"):
        memory.measure(parser.parse_args(["--minutes=0.3", "--sample_s=10"]))
