"""A fake learner's server and clients of it, closed after each test."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput

HERE = pathlib.Path(__file__).parent


def _load(name):
    """A module of this folder; it isn't a package."""
    spec = importlib.util.spec_from_file_location(f"transport_tests_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


learner_process = _load("learner_process")


class House:
    """Makes servers, clients and processes, and ends them."""

    spec = learner_process.SPEC
    settings = learner_process.SETTINGS
    answer = staticmethod(learner_process.answer)

    def __init__(self, directory):
        self.path = f"unix:{directory}/learner.sock"
        self.service = None
        self._ends = []

    def serve(self, address=None, security=None, **limits):
        """Starts a server with a new fake service; returns what a test needs of it."""
        service = learner_process.FakeService()
        server = ActorServer(address or self.path, service, security=security or ServerSecurity(), **limits)
        self._ends += [service.end, lambda: server.stop(grace=1.0)]
        return SimpleNamespace(address=server.start(), server=server, service=service)

    def connect(self, address=None, security=None, **options):
        client = LearnerClient(address or self.path, security or ClientSecurity(), **options)
        self._ends.append(client.close)
        return client

    def streams(self, client, sizes):
        """Joins; returns the lease and an open stream for each group."""
        lease = client.join("run", self.spec, sizes, timeout=5.0)
        return lease, [client.open(lease, group, self.spec) for group in range(len(sizes))]

    def run(self, script, address):
        """Starts a program of this folder and waits for the first line it prints."""
        process = subprocess.Popen(
            [sys.executable, HERE / script, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ends.append(lambda: _end(process))
        return SimpleNamespace(process=process, line=process.stdout.readline().strip())

    def output(self, size, value=1):
        """A step of `size` environments whose observations hold `value`."""
        return EnvOutput(np.zeros(size, np.float32), np.zeros(size, bool), np.full((size, 4), value, np.int32))

    def close(self):
        for end in reversed(self._ends):
            end()


def _end(process):
    process.kill()
    process.communicate()


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    house.close()
