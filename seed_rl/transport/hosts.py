"""What a peer's host gets a limited share of: lines in the learner's log, and joins that are refused."""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable

_HOSTS = 1024  # that are remembered, the latest
_ALL_HOSTS = 10  # times the lines of one, for all of them together


class Allowance:
    """A number of things that each host may have in every period. For any thread."""

    def __init__(self, count: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        """
        Args:
          count: things of one host.
          seconds: of a period, which begins with the first of them.
          clock: gives seconds.
        """
        self._count, self._seconds, self._clock = count, seconds, clock
        self._lock = threading.Lock()
        self._periods: collections.OrderedDict[str, tuple[float, int]] = collections.OrderedDict()  # end, things asked

    def is_spent(self, peer: str) -> bool:
        """Whether the host of a peer, whose address is in gRPC's notation, gets nothing more in this period."""
        end, asked = self._periods.get(_host(peer), (0.0, 0))
        return asked >= self._count and self._clock() < end

    def take(self, peer: str) -> int | None:
        """Takes one thing for the host of a peer.

        Returns:
          None if nothing is left; otherwise how many it was denied in its last period, if this is the first since.
        """
        now = self._clock()
        with self._lock:
            end, asked = self._periods.pop(_host(peer), (now, 0))
            is_new = now >= end
            self._periods[_host(peer)] = (now + self._seconds, 1) if is_new else (end, asked + 1)
            if len(self._periods) > _HOSTS:
                self._periods.popitem(last=False)
        if is_new:
            return max(0, asked - self._count)
        return 0 if asked < self._count else None


class HostLog:
    """A log of what peers do, of which each host gets some lines a minute, and all hosts together ten times as many."""

    def __init__(self, log: logging.Logger, lines: int, clock: Callable[[], float] = time.monotonic):
        """
        Args:
          log: gets the lines.
          lines: a minute, of one host.
          clock: gives seconds.
        """
        self._log = log
        self._lines = Allowance(lines, 60.0, clock)
        self._all_lines = Allowance(lines * _ALL_HOSTS, 60.0, clock)

    def write(self, level: int, peer: str, sentence: str, error: Exception | None = None) -> None:
        """Logs a sentence about a peer, whose address may be behind other words, or counts it for the host's next line.

        With the traceback of an error, if there is one.
        """
        if not self._log.isEnabledFor(level) or (withheld := self._lines.take(peer)) is None:
            return
        if self._all_lines.take("") is not None:
            more = f" (and {withheld} more of this host before)" if withheld else ""
            self._log.log(level, "%s%s", sentence, more, exc_info=error)


def _host(peer: str) -> str:
    """The address without what is new with each connection: its port, and words before it."""
    return peer.rpartition(" ")[2].rpartition(":")[0]
