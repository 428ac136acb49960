"""Leases of environment ids to actors."""

import dataclasses
import heapq
import secrets
import time
from collections.abc import Callable, Sequence

from seed_rl.specs import GroupLease, Lease
from seed_rl.transport.protocol import Refusal, Refused

_SEEDS = 2**31 - 2**20  # so that the seeds of a whole group fit into an int32


@dataclasses.dataclass
class _Session:
    actor: str
    groups: dict[int, GroupLease]
    """Groups whose ids are in use, by their index."""
    joined_at: float
    awaited: set[int]
    """Groups that haven't had a stream yet; the others are streaming."""


@dataclasses.dataclass(eq=False)
class Membership:
    """Leases the environment ids 0 .. N - 1 to actors, the lowest free ones first. Not thread-safe.

    Id i belongs to inference device i mod D. All ids of a group belong to one device, the one with the most free ids.
    They become free when the group's stream ends, or `timeout` seconds after a join if no stream is opened.
    """

    num_envs: int
    """N, the number of environments."""
    seed: int
    """Seed of the first environment."""
    timeout: float
    """Time that a lease lasts without a stream, seconds."""
    clock: Callable[[], float] = time.monotonic
    num_devices: int = 1
    """D, the number of inference devices."""

    def __post_init__(self) -> None:
        self._free = [list(range(device, self.num_envs, self.num_devices)) for device in range(self.num_devices)]
        self._sessions: dict[str, _Session] = {}
        self._seeds_given = 0

    @property
    def actors(self) -> int:
        """Number of actors that hold ids: they are connected, or about to be."""
        return len(self._sessions)

    @property
    def leased(self) -> int:
        """Number of environment ids in use."""
        return self.num_envs - sum(map(len, self._free))

    def device_of(self, lease: GroupLease) -> int:
        return lease.env_ids[0] % self.num_devices

    def join(self, group_sizes: Sequence[int], actor: str = "") -> Lease:
        """Lease ids, with new seeds, for groups of these sizes to an actor, named in logs, or raise `Refused`."""
        self._expire()
        groups = self._choose(group_sizes, actor)
        lease = Lease(secrets.token_hex(16), tuple(groups))
        own = dict(enumerate(groups))
        self._sessions[lease.session] = _Session(actor, own, self.clock(), awaited={*own})
        return lease

    def _choose(self, group_sizes: Sequence[int], actor: str) -> Sequence[GroupLease]:
        """Reserve ids and seeds for an actor's groups of these sizes."""
        groups = []
        for size, device in zip(group_sizes, self._spread(group_sizes), strict=True):
            ids = tuple(heapq.heappop(self._free[device]) for _ in range(size))
            groups.append(GroupLease(ids, (self.seed + self._seeds_given) % _SEEDS))
            self._seeds_given += size
        return groups

    def _spread(self, group_sizes: Sequence[int]) -> list[int]:
        """Choose the device of each group."""
        free = [len(ids) for ids in self._free]
        devices = []
        for size in group_sizes:
            device = free.index(max(free))
            free[device] -= size
            if free[device] < 0:
                among = f", {len(free)} devices share them" if len(free) > 1 else ""
                full = f"there is room for {self.num_envs} environments and {self.leased} are taken{among}"
                raise Refused(Refusal.RESOURCE_EXHAUSTED, f"{full}: {sum(group_sizes)} more don't fit")
            devices.append(device)
        return devices

    def open(self, session: str, group: int) -> GroupLease:
        """Mark a group as streaming; raise `Refused` if there is no such group any more, or it has a stream."""
        self._expire()
        entry = self._sessions.get(session)
        if entry is None or group not in entry.groups:
            raise Refused(Refusal.NOT_FOUND, f"group {group} of this session is not known here: join again")
        if group not in entry.awaited:
            raise Refused(Refusal.FAILED_PRECONDITION, f"group {group} of this session already has a stream")
        entry.awaited.remove(group)
        return entry.groups[group]

    def close(self, session: str, group: int) -> str:
        """Free the ids of a group whose stream has ended; return the name of its actor."""
        entry = self._sessions[session]
        lease = entry.groups.pop(group)
        for env_id in lease.env_ids:
            heapq.heappush(self._free[self.device_of(lease)], env_id)
        if not entry.groups:
            del self._sessions[session]
        return entry.actor

    def _expire(self) -> None:
        now = self.clock()
        for session, entry in list(self._sessions.items()):
            while entry.awaited and now - entry.joined_at >= self.timeout:
                self.close(session, entry.awaited.pop())
