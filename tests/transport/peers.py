"""A learner without learning and an actor without environments; as a program, either of them for an address."""

import collections
import itertools
import logging
import queue
import random
import shutil
import subprocess
import sys
import threading

import numpy as np

from seed_rl.specs import ActorSettings, ArraySpec, DiscreteSpec, EnvDescription, EnvSpec, GroupLease, Lease
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput
from tests.support.deadlines import within

SPEC = EnvSpec(ArraySpec((4,), "int32"), DiscreteSpec(10_000))
SETTINGS = ActorSettings(EnvDescription("fake", {"game": "pong", "frames": 4, "sticky": 0.25, "full": True}), 2, 3)


class FakeService:
    """Answers each environment with the sum of its observation plus its id, from another thread and out of order."""

    def __init__(self):
        self.failures = {}  # exceptions that methods raise, by name
        self.joined = []  # (run_id, env_spec, group_sizes, peer)
        self.closed = queue.Queue()  # (session, group, lease, reason)
        self.steps = []  # (lease, first, output)
        self.numbers = []  # (environment, name, value)
        self.held = queue.Queue()  # streams that are not answered
        self.hold = False
        self._leases = []
        self._requests = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._answer, daemon=True)
        self._worker.start()

    def end(self):
        self._requests.put(None)
        self._worker.join()

    def _may_fail(self, method):
        if method in self.failures:
            raise self.failures[method]

    def join(self, run_id, env_spec, group_sizes, peer):
        self._may_fail("join")
        begin = sum(len(group.env_ids) for lease in self._leases for group in lease.groups)
        ends = itertools.accumulate(group_sizes, initial=begin)
        groups = (GroupLease(tuple(range(begin, end)), seed=100 + begin) for begin, end in itertools.pairwise(ends))
        self._leases.append(Lease(str(len(self._leases)), tuple(groups)))
        self.joined.append((run_id, env_spec, group_sizes, peer))
        return self._leases[-1]

    def open(self, session, group):
        self._may_fail("open")
        return self._leases[int(session)].groups[group], SPEC

    def step(self, request):
        self._may_fail("step")
        self.steps.append((request.lease, request.first, request.output))
        if self.hold:
            self.held.put(request.stream)
        else:
            self._requests.put(request)

    def report(self, numbers):
        self.numbers += numbers

    def close(self, session, group, lease, reason):
        self._may_fail("close")
        self.closed.put((session, group, lease, reason))

    def _answer(self):
        shuffle = random.Random(0).shuffle
        while (request := self._requests.get()) is not None:
            batch = [request]
            while not self._requests.empty():
                batch.append(self._requests.get())
            batch = [request for request in batch if request is not None]
            shuffle(batch)
            for request in batch:
                request.stream.answer(answer(request.env_ids, request.output.observation))
            request = batch = None  # frees the memory that they refer to


def answer(env_ids, observation):
    """Actions int32 [E] for observations int32 [E, 4]."""
    return (observation.sum(axis=1) + env_ids).astype(np.int32)


def output(size):
    """A step of `size` environments, at the beginning of an episode, whose observations are ones."""
    begins = np.ones(size, bool)
    return EnvOutput(np.zeros(size, np.float32), begins, ~begins, np.ones((size, 4), np.int32))


def mutated(message, rng):
    """A message with some bytes changed, cut, repeated or replaced."""
    data = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        change = rng.randrange(4)
        if change == 0:
            data[at:] = b""
        elif change == 1:
            data[at:at] = rng.randbytes(rng.randint(1, 100))
        elif change == 2:
            data[at : at + 1] = rng.randbytes(1)
        else:
            data = bytearray(rng.randbytes(rng.randint(0, 2000)))
    return bytes(data)


def start(role, *arguments, **options):
    """Starts a process, "learn" or "act", as a command does; returns it and the first line that it prints."""
    claim = "import runpy; from seed_rl.cli import own_process; own_process.claim()"
    program = f"{claim}; runpy.run_path({__file__!r}, run_name='__main__')"
    command = [sys.executable, "-c", program, role, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
    return process, process.stdout.readline().strip()


def learn(address, token):
    """Serves until standard input ends; prints the address."""
    logging.basicConfig(level=logging.INFO)
    server = ActorServer(address, SETTINGS, security=ServerSecurity(token=token), max_message_bytes=1 << 20)
    server.service = FakeService()
    server.service.steps = collections.deque(maxlen=0)  # nobody looks at them
    print(server.start(), flush=True)
    sys.stdin.read()
    server.stop(grace=1.0)


def act(address):
    """Steps for ever; prints the first actions."""
    client = LearnerClient(address, ClientSecurity())
    client.describe(timeout=within(10))
    stream = client.open(client.join("run", SPEC, [2], timeout=within(10)), 0, SPEC)
    print(stream.step(output(2)), flush=True)
    while True:
        stream.step(output(2))


def self_signed(name, directory):
    """The files of a certificate for a name, and of its key."""
    assert shutil.which("openssl"), "this test needs the openssl program"
    cert, key = f"{directory}/{name}.pem", f"{directory}/{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", "-x509", *kind, *subject, "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


if __name__ == "__main__":
    {"learn": learn, "act": act}[sys.argv[1]](*sys.argv[2:])
