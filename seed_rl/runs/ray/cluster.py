"""A connection to a Ray cluster that leaves this process and the cluster as they were, and streams from its actors."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import queue
import re
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import grpc
import ray
import ray._private.worker as ray_worker

from seed_rl.transport.address import AddressError, parse_address

_log = logging.getLogger(__name__)

_OBJECT_STORE_BYTES = 128 << 20  # of a cluster that is started here: only logs, metrics and files pass through it
_CONNECT_SECONDS = 10.0

Events: TypeAlias = "queue.Queue[Any]"
"""What a Ray actor streams: log records, and events of its own."""


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
    # Ray prints the events of its nodes, and has no switch for it but this name, which may change.
    ray_worker.print_to_stdstream = lambda message, **_: _log.debug("%s says: %s", message["pid"], message["lines"])
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        ray.init(address=address or "auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address or not isinstance(error, ConnectionError):  # such as one of another version of Ray
            why = " ".join(str(error).split())[:300]
            raise NoCluster(f"no Ray cluster can be reached at {address or 'auto'}: {why}") from error
        ray.init(address="local", include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, **quiet)


def _check(address: str) -> None:
    """Fails at once where Ray itself would try for a quarter of an hour.

    Raises:
      NoCluster: the address isn't that of the head of a cluster.
    """
    try:
        place = parse_address(address)
        socket.create_connection((place.host, place.port), _CONNECT_SECONDS).close()
        if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
            with grpc.insecure_channel(str(place), [("grpc.enable_http_proxy", 0)]) as channel:
                health: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
                health(b"", timeout=_CONNECT_SECONDS)
    except AddressError as error:
        raise NoCluster(
            f"a cluster is named by the HOST:PORT of its head, in --ray_address or RAY_ADDRESS; got {address!r}"
        ) from error
    except OSError as error:
        raise NoCluster(f"no Ray cluster can be reached at {address}: {error.strerror or error}") from error
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise NoCluster(
                f"the server at {address} is not the head of a Ray cluster, whose port is 6379 unless `ray start "
                "--port` says otherwise (8265 is the dashboard's, for `ray job submit`)"
            ) from error


def this_node() -> tuple[str, str]:
    """Where this process runs: the address of its node for other nodes, and a description for logs."""
    ip, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
    return ip, f"{ip} ({node[:8]}) process {os.getpid()}"


def streamed(work: Callable[[Events], None], log_level: int) -> Iterator[Any]:
    """The body of a Ray actor's streaming method: runs `work` in a thread.

    Args:
      work: gets the queue for its events.
      log_level: of the log records.

    Yields:
      The description of this process's node, then log records of this process and the events of `work`, in order.

    Raises:
      What `work` raises.
    """
    events: Events = queue.Queue()
    root = logging.getLogger()
    root.addHandler(logging.handlers.QueueHandler(events))
    root.setLevel(log_level)
    yield this_node()[1]
    with ThreadPoolExecutor(1, thread_name_prefix="work") as pool:
        done = pool.submit(work, events)
        done.add_done_callback(lambda _: events.put(None))
        for event in iter(events.get, None):
            yield event
            events.task_done()
    done.result()


def why_ended(error: ray.exceptions.RayError) -> str:
    """Why a method of a Ray actor ended, on one line."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return _first_line(error.cause)
    return not_started(error) or "its process or node is lost"


def not_started(error: ray.exceptions.RayError) -> str:
    """Why a Ray actor could not start, and on which node; "" if it had started."""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if "creation task" not in first or not others:
        return ""
    place = re.search(r"\bip=([^,)]+)", first)
    where = f" on {place[1]}" if place else ""
    return f"{others[-1]}{where}; every node needs the same seed_rl, and all that the experiment imports"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
