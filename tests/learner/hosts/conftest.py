"""Learner hosts in the threads of one process."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from seed_rl.learner.hosts import Hosts
from seed_rl.learner.hosts.rendezvous import rendezvous
from seed_rl.transport.credentials import ServerSecurity

NEVER = threading.Event()


def addresses(count):
    """Addresses that were free a moment ago."""
    with contextlib.ExitStack() as cleanup:
        sockets = [cleanup.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return tuple(f"localhost:{each.getsockname()[1]}" for each in sockets)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def everywhere(pool):
    """Calls a function for each host at the same time; gives what each call returns or raises."""

    def call(function, *arguments):
        futures = [pool.submit(function, *each) for each in zip(*arguments, strict=True)]
        return [future.exception(30) or future.result() for future in futures]

    return call


@pytest.fixture
def linked(everywhere):
    """Makes the links of hosts that have found each other."""
    with contextlib.ExitStack() as cleanup:

        def link(count, security=ServerSecurity()):  # noqa: B008
            where = addresses(count)
            links = everywhere(lambda index: connect(Hosts(where, index), security=security), range(count))
            return [cleanup.enter_context(contextlib.closing(each)) for each in links]

        yield link


def connect(hosts, stop=NEVER, security=ServerSecurity(), **options):  # noqa: B008
    return rendezvous(hosts, {}, stop, security, **options)


def agree(link, leave=False, ready=False, frames=0):
    return link.agree(leave=leave, ready=ready, env_frames=frames)
