"""The command that runs an actor."""

import contextlib
import logging
import sys
from concurrent.futures import ThreadPoolExecutor, wait

from seed_rl.actor.loop import Actor
from seed_rl.actor.watch import end_process
from seed_rl.cli import flags
from seed_rl.cli.flags import command
from seed_rl.system.signals import signals, stop_with_parent
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity, read_authorities, read_certificate, read_token

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


@command(
    "seed_rl actor --server_address=localhost:8686",
    flags.string("server_address", flags.DEFAULT_TCP_ADDRESS, "The learner's address: host:port or unix:/path."),
    flags.string("tls_ca", None, "PEM file with the learner's certificate or its authority; enables TLS."),
    flags.TLS_SERVER_NAME,
    flags.boolean("proxy", False, "Connect through the HTTP proxy in the environment's https_proxy or http_proxy."),
    *flags.SHARED_CREDENTIALS,
    flags.integer("num_groups", None, "Environment groups; default: as the learner asks.", lower_bound=1),
    flags.integer("envs_per_group", None, "Environments per group; default: as the learner asks.", lower_bound=1),
    flags.string("run_id", "", "The learner's name for this actor; default: a random one."),
    flags.number(
        "hang_timeout", 60.0, "Seconds after which a step hangs: the actor says which and ends.", lower_bound=0.1
    ),
    flags.IMPORT_MODULE,
    flags.boolean("share_memory", True, "Pass steps to a learner on this machine through shared memory."),
    flags.EXIT_WITH_PARENT,
)
def actor(values: flags.FlagValues) -> int:
    """Runs an actor, which gets the environments to step from its learner."""
    authorities, token = read_authorities(values.tls_ca), read_token(values.token_file)
    own = read_certificate(values.tls_cert, values.tls_key)
    security = ClientSecurity(authorities, token, values.insecure, values.tls_server_name, *own, values.proxy)
    security.check(parse_address(values.server_address))
    running = Actor(
        lambda: LearnerClient(values.server_address, security, share_memory=values.share_memory),
        values.num_groups,
        values.envs_per_group,
        values.run_id,
        hang_timeout=values.hang_timeout,
        on_hang=_end,
    )
    _log.info("looking for a learner at %s", values.server_address)
    with signals() as stopped, ThreadPoolExecutor(1, thread_name_prefix="actor") as pool:
        if values.exit_with_parent:
            stop_with_parent(stopped)
        run = pool.submit(running.run)
        # The main thread only waits: a signal handler must not run while it holds a lock.
        while not run.done():
            wait([run], timeout=_POLL_SECONDS)
            if stopped.is_set():
                running.stop()
        run.result()
        return stopped.exit_code


def _end(sentence: str) -> None:
    with contextlib.suppress(OSError):  # of a full disk
        print(f"seed_rl actor: {sentence}", file=sys.stderr, flush=True)
    end_process()
