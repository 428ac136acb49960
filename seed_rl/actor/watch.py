"""Finds environments that hang: a step of theirs doesn't return."""

import itertools
import logging
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from seed_rl.envs.checks import Checked
from seed_rl.envs.vector.workers import WorkersVectorEnv
from seed_rl.errors import Failure

_log = logging.getLogger(__name__)

_TICKS = 20  # looks in the time after which an environment counts as hanging
_LONGER = {"step": 1, "reset": 10, "make": 30, "close": 1}  # which may load or compile levels
_AGAIN = 10  # times the limit until a hanging environment is named again


class Watch:
    """A thread that looks at the calls of environments, and names those that hang for `limit` seconds."""

    def __init__(self, name: str, limit: float, on_hang: Callable[[str], None]):
        """Name environments of the actor `name`, if it has one; `on_hang` gets each sentence after it was logged."""
        self._name, self._limit, self._on_hang = name, limit, on_hang
        self._calls: dict[int, tuple[str, int]] = {}  # present call of each thread, and its number
        self._numbers = itertools.count()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def call(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call named `what`, `step`, `reset`, `make` or `close`, which may hang."""
        thread = threading.get_ident()
        self._calls[thread] = (what, next(self._numbers))
        try:
            return call(*arguments)
        finally:
            del self._calls[thread]

    def _look(self) -> None:
        seen: dict[int, tuple[tuple[int, str], float, float]] = {}  # what hangs, since when, and when to name it
        while not self._stopped.wait(self._limit / _TICKS):
            now, before, seen = time.monotonic(), seen, {}
            for thread, (what, number) in list(self._calls.items()):
                frame, due = sys._current_frames().get(thread), now + self._limit * _LONGER[what]
                known = before.get(thread)
                # One call steps many environments: what counts is how long it has been the same one's turn.
                key = (number, _whose_turn(frame) if known and known[0][0] == number else "")
                _, since, due = known if known and known[0] == key else (key, now, due)
                if now >= due:
                    due = now + _AGAIN * self._limit
                    who = key[1] or "a group of environments"
                    self._report(f"{who} has not returned from {what} for {now - since:.0f} s", frame)
                seen[thread] = key, since, due

    def _report(self, sentence: str, frame: FrameType | None) -> None:
        sentence = f"{self._name and f'{self._name}: '}{sentence}"
        _log.error("%s", sentence)
        _log.info("it is here:\n%s", "".join(traceback.format_stack(frame)))
        self._on_hang(sentence)


def end_process() -> None:
    """End this process at once, with the processes of its environments: a thread that hangs can't be ended."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(Failure.exit_code)


def _whose_turn(frame: FrameType | None) -> str:
    """Name the environment whose method a thread is in; "" if it has no name."""
    while frame is not None:
        own = frame.f_locals.get("self")
        if isinstance(own, Checked | WorkersVectorEnv):
            return own.whose_turn()
        frame = frame.f_back
    return ""
