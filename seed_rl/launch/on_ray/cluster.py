"""A connection to a Ray cluster that leaves this process and the cluster as they were."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import ray
import ray._private.worker as ray_worker

from seed_rl.transport.address import parse_address

_log = logging.getLogger(__name__)

_OBJECT_STORE_BYTES = 128 << 20  # of a cluster that is started here: only log lines and metrics pass through it

_CONNECT_SECONDS = 10.0


class NoCluster(Exception):
    """A cluster that can't be used; one sentence."""


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to a cluster, or starts one on this machine that ends with the connection.

    Nothing of Ray gets onto the terminal but warnings, and its signal handlers don't stay.

    Args:
      address: `host:port` of the cluster; "": that of `RAY_ADDRESS`, else one on this machine, else a new one.

    Raises:
      NoCluster: it can't be reached.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise NoCluster(
            f"{address} is for Ray clients, which are no part of the cluster: actors could not reach a learner here; "
            "use `ray job submit -- seed_rl train --launcher=ray ...`"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as it will be; otherwise Ray warns of it
    if address not in ("", "auto", "local"):
        _check(address)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _connect(address)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    logging.getLogger("ray").setLevel(logging.WARNING)
    # Ray prints what befalls its nodes even so, and has no switch for it: where this name has changed, it prints again.
    ray_worker.print_to_stdstream = _log_instead
    try:
        ray.init(address=address or "auto", log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address:
            told = " ".join(str(error).split())[:300]
            raise NoCluster(f"no Ray cluster can be reached at {address}: {told}") from error
        ray.init(
            address="local",
            log_to_driver=False,
            configure_logging=False,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
        )


def _check(address: str) -> None:
    """Ray itself tries for minutes.

    Raises:
      NoCluster: nobody listens there.
    """
    try:
        place = parse_address(address)
        socket.create_connection((place.host, place.port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise NoCluster(f"no Ray cluster can be reached at {address}: {error.strerror or error}") from error


def _log_instead(message: dict[str, Any], **_: Any) -> None:
    _log.debug("%s says: %s", message.get("pid"), "\n".join(message["lines"]))


def this_node() -> tuple[str, str]:
    """The id of the node that this process is on, and its address for others."""
    return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()


def living_nodes() -> dict[str, str]:
    """The address of each node of the cluster by its id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
