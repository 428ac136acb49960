"""Which part of a run the others wait for, in words."""

from __future__ import annotations

from collections.abc import Mapping

_BUSY = 0.95


def bottleneck(row: Mapping[str, float]) -> str:
    """What holds a run back and what would help, from the shares of time in a row of metrics.

    Whoever never waits is what the others wait for. The learner is asked first, because acting goes on while its queue
    has room; then inference, which serves all actors; then the actors. If each of them waits most of the time, they
    wait for one another's messages.
    """
    if not row.get("environments"):
        return "actors: none is connected"
    cores = ", all cores are busy" if row.get("time/cpu", 0.0) >= _BUSY else ""
    if row["time/learner_waiting"] < 1 - _BUSY or row["time/inference_blocked"] > 0.2:
        return f"learner: smaller network or faster device{cores}"
    if row["time/inference_acting"] > 0.8:
        return f"inference: larger batches or faster device{cores}"
    if row.get("time/actors_waiting", 0.0) < 0.5:
        return f"actors: add environments or processes{cores}"
    if cores:
        return "cores: all are busy, shared by everything"
    return "latency: add groups of environments to each actor"
