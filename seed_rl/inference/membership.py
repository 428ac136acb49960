"""Leases of environment ids to actors."""

from __future__ import annotations

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
    groups: Sequence[GroupLease]
    joined_at: float
    awaited: set[int]
    """Groups that have had no stream yet."""
    held: set[int]
    """Groups whose ids are in use: those, and the ones that stream."""


class Membership:
    """Leases the environment ids 0 .. N - 1 to actors, the lowest free ones first. Used on one thread.

    All ids of a group belong to one inference device, id i to device i mod D; a group gets the device with the most
    free ids. They are free again when the group's stream ends, or `timeout` seconds after a join without a stream.
    """

    def __init__(
        self,
        num_envs: int,
        seed: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        num_devices: int = 1,
    ):
        """
        Args:
          num_envs: N.
          seed: of the environments' seeds.
          timeout: seconds.
          clock: gives seconds.
          num_devices: D.
        """
        self.num_envs = num_envs
        self.num_devices = num_devices
        self._free = [list(range(device, num_envs, num_devices)) for device in range(num_devices)]
        self._sessions: dict[str, _Session] = {}
        self._seed = seed
        self._seeds_given = 0
        self._timeout = timeout
        self._clock = clock

    @property
    def actors(self) -> int:
        """Actors that hold ids."""
        return len(self._sessions)

    @property
    def leased(self) -> int:
        """Environment ids in use."""
        return self.num_envs - sum(map(len, self._free))

    def device_of(self, lease: GroupLease) -> int:
        """The inference device of a group."""
        return lease.env_ids[0] % self.num_devices

    def join(self, group_sizes: Sequence[int], actor: str = "") -> Lease:
        """Leases ids for groups of these sizes to an actor, which the name stands for in logs.

        Every lease has new environment seeds, so that a restarted actor does not repeat its episodes.

        Raises:
          Refused: not enough free ids.
        """
        self._expire()
        groups = []
        for size, device in zip(group_sizes, self._spread(group_sizes), strict=True):
            ids = tuple(heapq.heappop(self._free[device]) for _ in range(size))
            groups.append(GroupLease(ids, (self._seed + self._seeds_given) % _SEEDS))
            self._seeds_given += size
        lease = Lease(secrets.token_hex(16), tuple(groups))
        everyone = range(len(groups))
        self._sessions[lease.session] = _Session(actor, groups, self._clock(), set(everyone), set(everyone))
        return lease

    def _spread(self, group_sizes: Sequence[int]) -> list[int]:
        """The device of each group."""
        free = [len(ids) for ids in self._free]
        devices = []
        for size in group_sizes:
            device = free.index(max(free))
            free[device] -= size
            if free[device] < 0:
                among = f", {len(free)} devices share them" if len(free) > 1 else ""
                raise Refused(
                    Refusal.RESOURCE_EXHAUSTED,
                    f"the learner has room for {self.num_envs} environments and {self.leased} are taken{among}: "
                    f"{sum(group_sizes)} more don't fit",
                )
            devices.append(device)
        return devices

    def open(self, session: str, group: int) -> GroupLease:
        """Marks a group as streaming.

        Raises:
          Refused: no such session or group, or the group has had its stream.
        """
        self._expire()
        entry = self._sessions.get(session)
        if entry is None or not 0 <= group < len(entry.groups):
            raise Refused(Refusal.NOT_FOUND, f"group {group} of this session is not known here: join again")
        if group not in entry.awaited:
            raise Refused(Refusal.FAILED_PRECONDITION, f"group {group} of this session already has a stream")
        entry.awaited.remove(group)
        return entry.groups[group]

    def actor_of(self, session: str) -> str:
        """The name of a session's actor."""
        return self._sessions[session].actor

    def close(self, session: str, group: int) -> None:
        """Frees the ids of a group whose stream ended."""
        entry = self._sessions[session]
        entry.held.remove(group)
        lease = entry.groups[group]
        for env_id in lease.env_ids:
            heapq.heappush(self._free[self.device_of(lease)], env_id)
        if not entry.held:
            del self._sessions[session]

    def _expire(self) -> None:
        now = self._clock()
        for session, entry in list(self._sessions.items()):
            while entry.awaited and now - entry.joined_at >= self._timeout:
                self.close(session, entry.awaited.pop())
