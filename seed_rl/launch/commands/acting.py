"""The command that runs an actor."""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from absl import flags

from seed_rl.actor.loop import Actor, Sizes
from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.launch.cli import FAILURE, UsageError
from seed_rl.launch.signals import Stopped, signals
from seed_rl.transport.address import AddressError, parse_address
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, SecurityError, read_token

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


def actor(values: flags.FlagValues) -> int:
    """Runs an actor."""
    for module in values.import_module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"--import_module={module}: {error}") from error
    sizes = Sizes(values.num_groups, values.envs_per_group)
    try:
        security = ClientSecurity(values.tls_ca, read_token(values.token_file), values.insecure, values.tls_server_name)
        security.check(parse_address(values.server_address))
        security.credentials()
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    running = Actor(
        lambda: LearnerClient(values.server_address, security, share_memory=values.share_memory),
        sizes,
    )
    _log.info("looking for a learner at %s", values.server_address)
    with signals() as stopped, ThreadPoolExecutor(1, thread_name_prefix="actor") as pool:
        if values.exit_with_parent:
            threading.Thread(target=_set_at_end_of_input, args=(stopped,), daemon=True).start()
        run = pool.submit(running.run)
        # The main thread only waits: a signal that arrives while it holds a lock would be handled under that lock.
        while not run.done():
            concurrent.futures.wait([run], timeout=_POLL_SECONDS)
            if stopped.is_set():
                running.stop()
        try:
            run.result()
        except (Rejected, CannotBuild, EnvironmentFailed) as error:
            print(f"seed_rl actor: {error}", file=sys.stderr)
            return FAILURE
        return stopped.exit_code


def _set_at_end_of_input(stopped: Stopped) -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock a thread that waits would keep at exit
        pass
    stopped.set()
