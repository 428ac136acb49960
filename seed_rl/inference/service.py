"""Central inference as the actors' server sees it: joins, streams, and one thread that acts for all of them."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence

import grpc
import numpy as np

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.inference.act_step import ActStep
from seed_rl.inference.batcher import Batcher, Request
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.episodes import Episodes, EpisodeTracker
from seed_rl.inference.membership import AlreadyStreaming, Membership, NoRoom, UnknownSession
from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport.refusal import Refused
from seed_rl.transport.stream import ActorStream
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)


@dataclasses.dataclass
class InferenceStats:
    """What inference has done since it started; read without locks by the learner's logs."""

    agent_steps: int = 0
    batches: int = 0
    padded_steps: int = 0
    """Rows of padding that were computed for nothing."""
    waiting_seconds: float = 0.0
    """Time spent waiting for observations."""
    blocked_seconds: float = 0.0
    """Time spent waiting for room in the unroll queue (back-pressure)."""
    acting_seconds: float = 0.0
    groups_waiting_seconds: float = 0.0
    """Sum over environment groups of the time that they waited for actions."""
    groups_stepping_seconds: float = 0.0
    """Sum over environment groups of the time that they took from actions to observations, the wire included."""


class CentralInference:
    """Implements `transport.server.Service`.

    Calls from the server arrive on its thread and only queue work; a thread of this object's batches it,
    runs the compiled act step and answers. If that thread fails, `failure` holds the exception, the queue of unrolls is
    closed, which wakes the learner, and every later request fails with a sentence.
    """

    def __init__(
        self,
        settings: ActorSettings,
        env_spec: EnvSpec,
        *,
        act_step: ActStep,
        cursor: UnrollCursor,
        queue: UnrollQueue,
        batcher: Batcher,
        membership: Membership,
        on_episodes: Callable[[Episodes], None],
    ):
        self.stats = InferenceStats()
        self.failure: BaseException | None = None
        self._settings = settings
        self._env_spec = env_spec
        self._act_step = act_step
        self._cursor = cursor
        self._queue = queue
        self._batcher = batcher
        self._membership = membership
        self._episodes = EpisodeTracker(membership.num_envs)
        self._on_episodes = on_episodes
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)

    def start(self) -> None:
        """Begins to act."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; requests that wait stay unanswered (the server ends their streams)."""
        self._batcher.close()
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def actors(self) -> int:
        """Actors that are connected or about to be."""
        return self._membership.actors

    @property
    def leased_envs(self) -> int:
        """Environments of actors that are connected or about to be."""
        return self._membership.leased

    def describe(self) -> ActorSettings:
        """What an actor needs to build its environments."""
        return self._settings

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Makes room for an actor's groups, or refuses with a sentence."""
        if env_spec != self._env_spec:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the learner trains on environments with {self._env_spec}; the actor's have {env_spec}",
            )
        largest = self._batcher.max_batch_size
        if not group_sizes or not all(1 <= size <= largest for size in group_sizes):
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"an actor needs groups of 1 to {largest} environments (the largest inference batch), "
                f"got {list(group_sizes)}",
            )
        try:
            lease = self._membership.join(group_sizes)
        except NoRoom as full:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full)) from full
        _log.info("actor %s joined from %s with %s environments", run_id, peer, "+".join(map(str, group_sizes)))
        return lease

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """A group's stream begins."""
        try:
            lease = self._membership.open(session, group)
        except UnknownSession as unknown:
            raise Refused(grpc.StatusCode.NOT_FOUND, str(unknown)) from unknown
        except AlreadyStreaming as twice:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(twice)) from twice
        self._batcher.group_opened(lease)
        return lease, self._env_spec

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """A group's stream has ended; its environment ids may be leased again."""
        self._batcher.group_closed(lease)
        self._membership.close(session, group)
        _log.info("environments %d..%d left: %s", lease.env_ids[0], lease.env_ids[-1], reason)

    def step(self, lease: GroupLease, first: bool, output: EnvOutput, stream: ActorStream) -> None:
        """Queues a group's observations; the stream gets its actions, [E, ...]."""
        if self.failure is not None:
            raise Refused(grpc.StatusCode.UNAVAILABLE, f"inference failed: {self.failure}")
        self._batcher.put(Request(lease, first, output, stream))

    def _run(self) -> None:
        try:
            while True:
                started = time.monotonic()
                requests = self._batcher.get()
                self.stats.waiting_seconds += time.monotonic() - started
                if requests is None or not self._answer(requests):
                    return
        except Exception as error:
            _log.exception("inference failed")
            self.failure = error
            self._queue.close()  # wakes the learner, which looks at `failure`

    def _answer(self, requests: Sequence[Request]) -> bool:
        """Acts for a batch of requests; False when the queue of unrolls was closed meanwhile."""
        env_ids = np.concatenate([request.env_ids for request in requests])
        restarted = np.repeat([request.first for request in requests], [len(request.env_ids) for request in requests])
        self._cursor.restart(env_ids[restarted])
        if self._cursor.finishing(env_ids):
            started = time.monotonic()
            if not self._queue.wait_for_room():
                return False
            self.stats.blocked_seconds += time.monotonic() - started

        started = time.monotonic()
        plan = self._cursor.advance(env_ids)
        writes = StepWrites(plan.slots, plan.positions, plan.opened)
        actions = self._act_step(env_ids, restarted, writes, [request.output for request in requests])
        self.stats.acting_seconds += time.monotonic() - started
        self._batcher.answered(requests)
        _reply(requests, actions)
        if len(plan.finished):
            self._queue.put(plan.finished)

        self.stats.groups_waiting_seconds = self._batcher.waiting_seconds
        self.stats.groups_stepping_seconds = self._batcher.stepping_seconds
        self.stats.agent_steps += len(env_ids)
        self.stats.batches += 1
        self.stats.padded_steps += self._act_step.padding(len(env_ids))
        self._track_episodes(env_ids, restarted, requests)
        return True

    def _track_episodes(self, env_ids: np.ndarray, restarted: np.ndarray, requests: Sequence[Request]) -> None:
        if restarted.any():
            self._episodes.restart(env_ids[restarted])
        going = [request for request in requests if not request.first]
        if going:
            episodes = self._episodes.step(
                env_ids[~restarted],
                np.concatenate([request.output.reward for request in going]),
                np.concatenate([request.output.done for request in going]),
            )
            if episodes is not None:
                self._on_episodes(episodes)


def _reply(requests: Sequence[Request], actions: np.ndarray) -> None:
    begin = 0
    for request in requests:
        end = begin + len(request.env_ids)
        request.stream.answer(actions[begin:end])
        begin = end
