"""A connection to a Ray cluster that leaves this process and the cluster as they were."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import ray
import ray._private.worker as ray_worker

from seed_rl.transport.address import AddressError, parse_address

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
        if address or not isinstance(error, ConnectionError):  # such as one of another version of Ray
            told = " ".join(str(error).split())[:300]
            raise NoCluster(f"no Ray cluster can be reached at {address or 'auto'}: {told}") from error
        ray.init(
            address="local",
            log_to_driver=False,
            configure_logging=False,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
        )


def _check(address: str) -> None:
    """Ray itself tries for a quarter of an hour.

    Raises:
      NoCluster: nobody listens there, or something else than the head of a cluster.
    """
    try:
        place = parse_address(address)
        socket.create_connection((place.host, place.port), _CONNECT_SECONDS).close()
    except AddressError as error:
        raise NoCluster(
            f"a cluster is named by the HOST:PORT of its head, in --ray_address or RAY_ADDRESS; got {address!r}"
        ) from error
    except OSError as error:
        raise NoCluster(f"no Ray cluster can be reached at {address}: {error.strerror or error}") from error
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true") and not _speaks_grpc(str(place)):
        raise NoCluster(
            f"what listens at {address} is not the head of a Ray cluster, whose port is 6379 unless `ray start --port` "
            "says otherwise (8265 is the dashboard's, for `ray job submit`)"
        )


def _speaks_grpc(address: str) -> bool:
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            check(b"", timeout=_CONNECT_SECONDS)
        except grpc.RpcError as error:
            return error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    return True


def _log_instead(message: dict[str, Any], **_: Any) -> None:
    _log.debug("%s says: %s", message.get("pid"), "\n".join(message["lines"]))


def not_started(error: ray.exceptions.RayActorError) -> str:
    """Why an actor's process could not begin, and on which node; "" if it had begun."""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "creation task" not in first or not others:
        return ""
    place = re.search(r"\bip=([^,)]+)", first)
    where = f" on {place[1]}" if place else ""
    return f"{others[-1]}{where}; every node needs the same seed_rl, and all that the experiment imports"


def this_node() -> tuple[str, str]:
    """The id of the node that this process is on, and its address for others."""
    return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()


def living_nodes() -> dict[str, str]:
    """The address of each node of the cluster by its id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
