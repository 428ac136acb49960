"""The thread of an inference device, which answers requests in batches."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.inference.act_step import ActStep
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.episodes import EpisodeTracker
from seed_rl.transport.streams import Request

_log = logging.getLogger(__name__)

STUCK_SECONDS = 60.0
"""Even a batch that has to be compiled first takes less."""
_ANY_TIME = contextlib.nullcontext()


@dataclasses.dataclass
class InferenceStats:
    """Totals since inference started; the learner's logs read them without a lock."""

    agent_steps: int = 0
    batches: int = 0
    padded_steps: int = 0
    """Padding rows (wasted compute)."""
    updates_behind: int = 0
    """Learner updates that the acting weights lacked, summed over batches."""
    waiting_seconds: float = 0.0
    """Seconds spent waiting for observations."""
    blocked_seconds: float = 0.0
    """Seconds spent waiting for room in the unroll queue (back-pressure)."""
    acting_seconds: float = 0.0
    groups_waiting_seconds: float = 0.0
    """Seconds that groups waited for actions, summed over groups."""
    groups_stepping_seconds: float = 0.0
    """Seconds from actions to the next observations, the wire included, summed over groups."""

    @staticmethod
    def of(several: Sequence[InferenceStats]) -> InferenceStats:
        """Combine several devices: sums, except for the times of the threads, which are means over devices."""
        total = InferenceStats(*map(sum, zip(*map(dataclasses.astuple, several), strict=True)))
        for name in ("waiting_seconds", "blocked_seconds", "acting_seconds"):
            setattr(total, name, getattr(total, name) / len(several))
        return total


@dataclasses.dataclass(eq=False)
class ActingThread:
    """Batches requests, runs the act step and answers; a `failure` closes the queue, which wakes the learner."""

    act_step: ActStep
    cursor: UnrollCursor
    queue: UnrollQueue
    batcher: Batcher
    turn: Callable[[Sequence[Request]], contextlib.AbstractContextManager[object]] = lambda requests: _ANY_TIME
    """Returns the context in which a batch is acted for; a change of weights waits until it is left."""

    def __post_init__(self) -> None:
        self.stats = InferenceStats()
        self.failure: BaseException | None = None
        self.episodes = EpisodeTracker(len(self.cursor.recorded))
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waiting requests stay unanswered. A stuck thread is abandoned."""
        self.batcher.close()
        self.queue.close()
        if self._thread.ident is not None:
            self._thread.join(STUCK_SECONDS)
            if self._thread.is_alive():
                _log.error("the inference thread is stuck and has been abandoned")

    def _run(self) -> None:
        try:
            while True:
                started = time.monotonic()
                requests = self.batcher.get()
                self.stats.waiting_seconds += time.monotonic() - started
                if requests is None or not self._answer(requests):
                    return
        except Exception as error:
            _log.exception("inference failed")
            self.failure = error
            self.batcher.close()
            self.queue.close()  # wakes the learner, which looks at `failure`

    def _answer(self, requests: Sequence[Request]) -> bool:
        """Act for a batch of requests; return False if the unroll queue was closed in the meantime."""
        env_ids = np.concatenate([request.env_ids for request in requests])
        sizes = [len(request.env_ids) for request in requests]
        restarted = np.repeat([request.first for request in requests], sizes)
        if restarted.any():
            self.cursor.restart(env_ids[restarted])
        if self.cursor.finishing(env_ids):
            started = time.monotonic()
            if not self.queue.wait_for_room():
                return False
            self.stats.blocked_seconds += time.monotonic() - started

        started = time.monotonic()
        outputs = [request.output for request in requests]
        last = np.concatenate([output.last for output in outputs])
        with self.turn(requests):
            writes, finished = self.cursor.advance(env_ids, last)
            self.stats.updates_behind += self.cursor.newest_version - self.cursor.version
            actions = self.act_step(env_ids, restarted, writes, outputs)
        self.stats.acting_seconds += time.monotonic() - started
        self.batcher.answered(requests)
        for request, size, end in zip(requests, sizes, itertools.accumulate(sizes), strict=True):
            request.stream.answer(actions[end - size : end])
        if len(finished):
            self.queue.put(finished)

        self.stats.groups_waiting_seconds = self.batcher.waiting_seconds
        self.stats.groups_stepping_seconds = self.batcher.stepping_seconds
        self.stats.agent_steps += len(env_ids) - int(np.count_nonzero(last))
        self.stats.batches += 1
        self.stats.padded_steps += self.act_step.padding
        reward = np.concatenate([output.reward for output in outputs])
        done = np.concatenate([output.done for output in outputs])
        self.episodes.step(env_ids, restarted, reward, done, last)
        return True
