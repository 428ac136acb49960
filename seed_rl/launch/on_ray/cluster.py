"""A connection to a Ray cluster that leaves this process and the cluster as they were."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import re
import signal
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import ray
import ray._private.worker as ray_worker
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from seed_rl.transport.address import AddressError, parse_address

_log = logging.getLogger(__name__)

_OBJECT_STORE_BYTES = 128 << 20  # of a cluster that is started here: only log lines and metrics pass through it
_CONNECT_SECONDS = 10.0
FOREVER = {"max_restarts": -1, "max_task_retries": -1}
"""Options of Ray actors that Ray restarts."""


class NoCluster(Exception):
    """A cluster that can't be used; one sentence."""


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to a cluster, or starts one on this machine that ends with the connection.

    Ray prints only its warnings, and its signal handlers are undone.

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
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the coming default; without it Ray warns
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
    # Ray still prints the events of its nodes, and has no switch for it but this name, which may change.
    ray_worker.print_to_stdstream = _log_instead
    try:
        ray.init(address=address or "auto", log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address or not isinstance(error, ConnectionError):  # such as one of another version of Ray
            why = " ".join(str(error).split())[:300]
            raise NoCluster(f"no Ray cluster can be reached at {address or 'auto'}: {why}") from error
        ray.init(
            address="local",
            log_to_driver=False,
            configure_logging=False,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
        )


def _log_instead(message: dict[str, Any], **_: Any) -> None:
    _log.debug("%s says: %s", message.get("pid"), "\n".join(message["lines"]))


def _check(address: str) -> None:
    """Fails at once where Ray itself would try for a quarter of an hour.

    Raises:
      NoCluster: the address isn't that of the head of a cluster.
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
            f"the server at {address} is not the head of a Ray cluster, whose port is 6379 unless `ray start --port` "
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


def not_started(error: ray.exceptions.RayActorError) -> str:
    """Why a Ray actor could not start, and on which node; "" if it had started."""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "creation task" not in first or not others:
        return ""
    place = re.search(r"\bip=([^,)]+)", first)
    where = f" on {place[1]}" if place else ""
    return f"{others[-1]}{where}; every node needs the same seed_rl, and all that the experiment imports"


def this_node() -> tuple[str, str]:
    """The id of this process's node, and its address for other nodes."""
    return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()


def living_nodes() -> dict[str, str]:
    """The address of each node of the cluster by its id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def actor_here(kind: type, *arguments: Any) -> Any:
    """Starts a Ray actor on this node, which Ray restarts; returns its handle."""
    here = NodeAffinitySchedulingStrategy(this_node()[0], soft=False)
    return ray.remote(kind).options(num_cpus=0, scheduling_strategy=here, **FOREVER).remote(*arguments)


class Mailbox:
    """A Ray actor that keeps events, in the order of their arrival, for the process that made it."""

    def __init__(self):
        self._events: list[Any] = []

    def put(self, event: Any) -> None:
        """Adds an event."""
        self._events.append(event)

    def take(self) -> list[Any]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events


def wait_for_delivery(mailbox: Any) -> None:
    """Waits, not for ever, until all that this process has put into a mailbox is there."""
    ray.wait([mailbox.__ray_ready__.remote()], timeout=_CONNECT_SECONDS)  # calls of one process keep their order


class MailboxHandler(logging.handlers.QueueHandler):
    """Sends log records to a mailbox, without waiting."""

    def __init__(self, mailbox: Any, sender: int = 0):
        """
        Args:
          mailbox: handle of a `Mailbox`.
          sender: `sender` of the records that arrive.
        """
        super().__init__(mailbox)
        self._sender = sender
        self.addFilter(lambda record: not record.name.startswith("ray"))  # sending may log

    def enqueue(self, record: logging.LogRecord) -> None:
        """Called with a record whose message is formatted."""
        record.sender = self._sender
        self.queue.put.remote(record)  # type: ignore[attr-defined]  # a handle, whose methods Ray makes
