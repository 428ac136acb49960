"""Lines through memory, and looks at it over a run."""

import contextlib

import numpy as np
import pytest

from benchmarks import memory
from benchmarks.failures import MeasurementFailed
from benchmarks.product import State
from benchmarks.usage import ProcessUse


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
    with pytest.raises(MeasurementFailed, match="--minutes is too short"):
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
    logdirs = []

    def product(command, arguments, logdir):
        logdirs.append(logdir)
        return contextlib.nullcontext(Growing(lost_at))

    monkeypatch.setattr(memory, "product", product)
    if lost_at == 3:
        with pytest.raises(MeasurementFailed, match="1 of 2 actors are left"):
            memory.over_a_run([], 4, seconds=0.2, sample=0.02, warm_up=0)
        return
    result = memory.over_a_run([], 4, seconds=0.2, sample=0.02, warm_up=0, logdir="runs/kept")
    assert logdirs == ["runs/kept"]
    assert 8 <= len(result["samples"]) <= 12
    assert result["learner"]["mb_per_hour"] == pytest.approx(3600 / 0.02, rel=0.2)
    assert result["learner"]["growth"] > 0.5
    assert result["actors"]["growth"] == 0
    kept = {"rows": [], "slope": 2.0, "intercept": 1e8, "residual": 0.0, "each": 2, "ratio": 1.0}
    assert "over 0.0 minutes of training" in memory.table({"unrolls": kept, "run": result})
