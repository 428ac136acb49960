"""A learner without learning: a service with predictable answers. As a program, it serves the given address."""

from __future__ import annotations

import queue
import random
import sys
import threading

import grpc
import numpy as np

from seed_rl.specs import ActorSettings, ArraySpec, DiscreteSpec, EnvDescription, EnvSpec, GroupLease, Lease
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.refusal import Refused
from seed_rl.transport.server import ActorServer

SPEC = EnvSpec(ArraySpec((4,), "int32"), DiscreteSpec(10_000))
SETTINGS = ActorSettings(EnvDescription("fake", {"game": "pong", "frames": 4, "sticky": 0.25, "full": True}), 2, 3)
MAX_ENVS = 256


class FakeService:
    """Answers each environment with the sum of its observation plus its id, from another thread and out of order."""

    def __init__(self):
        self.joined = []  # (run_id, env_spec, group_sizes, peer)
        self.opened = []  # (session, group)
        self.closed = queue.Queue()  # (session, group, lease, reason)
        self.steps = []  # (lease, first, output)
        self.held = queue.Queue()  # streams that nobody answers
        self.hold = False
        self.fail: Exception | None = None
        self._leases = {}
        self._streaming = set()
        self._requests = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._answer, daemon=True)
        self._worker.start()

    def end(self):
        self._requests.put(None)
        self._worker.join()

    def describe(self):
        return SETTINGS

    def join(self, run_id, env_spec, group_sizes, peer):
        if env_spec != SPEC:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"expected {SPEC}, got {env_spec}")
        taken = sum(len(group.env_ids) for lease in self._leases.values() for group in lease.groups)
        if taken + sum(group_sizes) > MAX_ENVS:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"the learner is full: {taken} of {MAX_ENVS}")
        self.joined.append((run_id, env_spec, group_sizes, peer))
        groups = []
        for size in group_sizes:
            groups.append(GroupLease(tuple(range(taken, taken + size)), seed=100 + taken))
            taken += size
        lease = Lease(f"session-{len(self._leases)}", tuple(groups))
        self._leases[lease.session] = lease
        return lease

    def open(self, session, group):
        if session not in self._leases:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"unknown session {session!r}")
        if group >= len(self._leases[session].groups):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"no group {group} in session {session!r}")
        if (session, group) in self._streaming:
            raise Refused(grpc.StatusCode.ABORTED, f"group {group} is already streaming")
        self._streaming.add((session, group))
        self.opened.append((session, group))
        return self._leases[session].groups[group], SPEC

    def step(self, lease, first, output, stream):
        if self.fail is not None:
            raise self.fail
        self.steps.append((lease, first, output))
        if self.hold:
            self.held.put(stream)
        else:
            self._requests.put((lease, output, stream))

    def close(self, session, group, lease, reason):
        self._streaming.remove((session, group))
        self.closed.put((session, group, lease, reason))

    def _answer(self):
        shuffle = random.Random(0).shuffle
        while (request := self._requests.get()) is not None:
            batch = [request]
            while not self._requests.empty():
                batch.append(self._requests.get())
            batch = [request for request in batch if request is not None]
            shuffle(batch)
            for lease, output, stream in batch:
                stream.answer(answer(lease, output.observation))
            request = batch = output = None  # what they look at is not to be kept until the next one


def answer(lease, observation):
    """Actions int32 [E] for observations int32 [E, 4]."""
    return (observation.sum(axis=1) + lease.env_ids).astype(np.int32)


if __name__ == "__main__":
    service = FakeService()
    server = ActorServer(sys.argv[1], service, security=ServerSecurity())
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop(grace=1.0)
