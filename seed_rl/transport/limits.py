"""Limits per host: on lines in the learner's log, and on refused joins."""

import logging
import threading
import time
from collections.abc import Callable

_HOSTS = 1024  # remembered, the most recent ones


class Allowance:
    """A number of things that each host may take per period, which begins when it takes the first. Thread-safe."""

    def __init__(self, count: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._count, self._seconds, self._clock = count, seconds, clock
        self._lock = threading.Lock()
        self._periods: dict[str, tuple[float, int]] = {}  # end, things asked for; by host, the most recent one last

    def is_spent(self, peer: str) -> bool:
        """Return whether the host of a peer (an address in gRPC's notation) may take nothing more in this period."""
        end, asked = self._periods.get(_host(peer), (0.0, 0))
        return asked >= self._count and self._clock() < end

    def take(self, peer: str) -> int | None:
        """Take one thing for the host of a peer; return None if nothing is left.

        Otherwise return 0, or for the first thing in a period the number denied in the last one.
        """
        now = self._clock()
        with self._lock:
            end, asked = self._periods.pop(_host(peer), (now, 0))
            is_new = now >= end
            self._periods[_host(peer)] = (now + self._seconds, 1) if is_new else (end, asked + 1)
            if len(self._periods) > _HOSTS:
                del self._periods[next(iter(self._periods))]
        if is_new:
            return max(0, asked - self._count)
        return 0 if asked < self._count else None


class HostLog:
    """A log of what peers do, with a limit on lines per minute for each host and a tenfold limit for all together."""

    def __init__(self, log: logging.Logger, lines: int, clock: Callable[[], float] = time.monotonic):
        self._log = log
        self._lines = Allowance(lines, 60.0, clock)
        self._all_lines = Allowance(10 * lines, 60.0, clock)

    def write(self, level: int, peer: str, sentence: str, error: Exception | None = None) -> None:
        """Log a message about a peer, whose address may follow other words; once over the limit, only count it."""
        if not self._log.isEnabledFor(level) or (withheld := self._lines.take(peer)) is None:
            return
        if self._all_lines.take("") is not None:
            more = f" (and {withheld} more of this host before)" if withheld else ""
            self._log.log(level, "%s%s", sentence, more, exc_info=error)


def _host(peer: str) -> str:
    """Return the address without its port and any words before it, which change with each connection."""
    return peer.rpartition(" ")[2].rpartition(":")[0]
