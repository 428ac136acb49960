"""A learner without learning and an actor without environments; as a program, either of them for an address."""

from __future__ import annotations

import queue
import random
import sys
import threading

import numpy as np

from seed_rl.specs import ActorSettings, ArraySpec, DiscreteSpec, EnvDescription, EnvSpec, GroupLease, Lease
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.refusal import Refusal, Refused
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput

SPEC = EnvSpec(ArraySpec((4,), "int32"), DiscreteSpec(10_000))
SETTINGS = ActorSettings(EnvDescription("fake", {"game": "pong", "frames": 4, "sticky": 0.25, "full": True}), 2, 3)
MAX_ENVS = 256


class FakeService:
    """Answers each environment with the sum of its observation plus its id, from another thread and out of order."""

    def __init__(self):
        self.joined = []  # (run_id, env_spec, group_sizes, peer)
        self.closed = queue.Queue()  # (session, group, lease, reason)
        self.steps = []  # (lease, first, output)
        self.held = queue.Queue()  # streams that are not answered
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
            raise Refused(Refusal.FAILED_PRECONDITION, f"expected {SPEC}, got {env_spec}")
        taken = sum(len(group.env_ids) for lease in self._leases.values() for group in lease.groups)
        if taken + sum(group_sizes) > MAX_ENVS:
            raise Refused(Refusal.RESOURCE_EXHAUSTED, f"the learner is full: {taken} of {MAX_ENVS}")
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
            raise Refused(Refusal.NOT_FOUND, f"unknown session {session!r}")
        if group >= len(self._leases[session].groups):
            raise Refused(Refusal.INVALID_ARGUMENT, f"no group {group} in session {session!r}")
        if (session, group) in self._streaming:
            raise Refused(Refusal.FAILED_PRECONDITION, f"group {group} is already streaming")
        self._streaming.add((session, group))
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
            request = batch = output = stream = None  # frees the memory that they refer to


def answer(lease, observation):
    """Actions int32 [E] for observations int32 [E, 4]."""
    return (observation.sum(axis=1) + lease.env_ids).astype(np.int32)


def output(size, value=1):
    """A step of `size` environments whose observations hold `value`."""
    return EnvOutput(np.zeros(size, np.float32), np.zeros(size, bool), np.full((size, 4), value, np.int32))


def learn(address):
    """Serves until standard input ends; prints the address."""
    server = ActorServer(address, FakeService(), security=ServerSecurity())
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop(grace=1.0)


def act(address):
    """Steps for ever; prints the first actions."""
    client = LearnerClient(address, ClientSecurity())
    client.describe(timeout=10.0)
    stream = client.open(client.join("run", SPEC, [2], timeout=10.0), 0, SPEC)
    print(stream.step(output(2)), flush=True)
    while True:
        stream.step(output(2))


if __name__ == "__main__":
    {"learn": learn, "act": act}[sys.argv[1]](sys.argv[2])
