"""Central inference as the actors' server sees it: joins, streams, and requests for the inference threads."""

import collections
import dataclasses
import logging
from collections.abc import Sequence

from seed_rl.errors import Failure
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.episodes import Episodes
from seed_rl.inference.membership import Membership
from seed_rl.inference.thread import ActingThread, InferenceStats
from seed_rl.specs import EnvSpec, GroupLease, Lease
from seed_rl.transport.limits import HostLog
from seed_rl.transport.protocol import Refusal, Refused
from seed_rl.transport.streams import Request, Service

_log = logging.getLogger(__name__)

_NUMBERS = 100_000  # kept until the next row of metrics
_LINES = 100  # in the log, of one host's actors in a minute


@dataclasses.dataclass(eq=False)
class CentralInference(Service):
    """Answers actors from the threads of the inference devices.

    The server's thread calls it, and each call only queues work for the thread of an inference device. If such a thread
    fails, `raise_failure` raises, and every later request is refused with a sentence.
    """

    env_spec: EnvSpec
    membership: Membership
    threads: Sequence[ActingThread]
    """Thread of each of the membership's devices."""
    players: int = 1
    """Number of players of a game; groups have whole games."""
    group_size: int | None = None
    """Size of all groups; None: any."""
    hang_timeout: float = 60.0
    """Time after which a group that doesn't step hangs, seconds."""

    def __post_init__(self) -> None:
        self._host_log = HostLog(_log, _LINES)
        self._hung = 0
        self._numbers: collections.deque[tuple[int, str, float]] = collections.deque(maxlen=_NUMBERS)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; waiting requests stay unanswered (the server ends their streams)."""
        for thread in self.threads:
            thread.stop()

    def take_episodes(self) -> list[Episodes]:
        """Return the episodes that have ended since the last call."""
        return [episodes for thread in self.threads for episodes in thread.episodes.take()]

    def take_numbers(self) -> list[tuple[int, str, float]]:
        """Return the newest numbers about episodes since the last call: environment id, name and value."""
        return [self._numbers.popleft() for _ in range(len(self._numbers))]

    def connected(self) -> dict[str, float]:
        """Count the actors and their environments; those that hang, and groups that have left so, if there are any."""
        hanging = sum(thread.batcher.hanging(self.hang_timeout) for thread in self.threads)
        counts: dict[str, float] = {"actors": self.membership.actors, "environments": self.membership.leased}
        odd: dict[str, float] = {"environments_hanging": hanging, "groups_hung": self._hung}
        return counts | {name: count for name, count in odd.items() if count}

    @property
    def stats(self) -> InferenceStats:
        """Totals over all devices."""
        return InferenceStats.of([thread.stats for thread in self.threads])

    def raise_failure(self) -> None:
        """Raise the failure of a thread, if one has failed: a `Failure`, or else a RuntimeError."""
        for failure in (thread.failure for thread in self.threads if thread.failure is not None):
            if isinstance(failure, Failure):
                raise failure
            raise RuntimeError(f"inference failed: {failure}") from failure

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        if env_spec != self.env_spec:
            sentence = f"the agent acts in environments with {self.env_spec}; the client's have {env_spec}"
            raise Refused(Refusal.FAILED_PRECONDITION, sentence)
        largest, players = self.threads[0].batcher.max_batch_size, self.players
        if not group_sizes or not all(1 <= size <= largest and size % players == 0 for size in group_sizes):
            whole = f", in whole games of {players} players" * (players > 1)
            sentence = f"an actor needs groups of 1 to {largest} environments (the largest inference batch){whole}"
            raise Refused(Refusal.INVALID_ARGUMENT, f"{sentence}, got {list(group_sizes)}")
        if self.group_size is not None and {*group_sizes} != {self.group_size}:
            sentence = f"groups have {self.group_size} environments in a run with Actors.eval_options"
            raise Refused(Refusal.INVALID_ARGUMENT, f"{sentence}, got {list(group_sizes)}")
        lease = self.membership.join(group_sizes, f"{run_id} on {peer}")
        room = f"{sum(group_sizes)} environments in {len(group_sizes)} groups"
        self._host_log.write(logging.INFO, peer, f"actor {run_id} joined from {peer} with {room}")
        return lease

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        lease = self.membership.open(session, group)
        self._batcher(lease).group_opened(lease)
        return lease, self.env_spec

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        self._hung += self._batcher(lease).group_closed(lease) >= self.hang_timeout
        first, last, actor = lease.env_ids[0], lease.env_ids[-1], self.membership.close(session, group)
        self._host_log.write(logging.INFO, actor, f"environments {first}..{last} left: {reason}")

    def step(self, request: Request) -> None:
        thread = self.threads[self.membership.device_of(request.lease)]
        if thread.failure is not None:
            raise Refused(Refusal.UNAVAILABLE, f"inference failed: {thread.failure}")
        thread.batcher.put(request)

    def report(self, numbers: Sequence[tuple[int, str, float]]) -> None:
        self._numbers.extend(numbers)

    def _batcher(self, lease: GroupLease) -> Batcher:
        return self.threads[self.membership.device_of(lease)].batcher
