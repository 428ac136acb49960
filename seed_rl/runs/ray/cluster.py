"""The connection to a Ray cluster; one that can't be made is explained in a sentence."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import ray

from seed_rl.transport.address import AddressError, parse_address

_CONNECT_SECONDS = 10.0


class NoCluster(Exception):
    """A cluster that can't be used; one sentence."""


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects this process to a cluster, or starts one on this machine that ends with the connection.

    Args:
      address: `host:port` of the cluster; "": that of `RAY_ADDRESS`, else one on this machine, else a new one.

    Raises:
      NoCluster: it can't be reached, or refuses this process.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the coming default; without it Ray warns
    if address not in ("", "auto", "local"):
        _check(address)
    logging.getLogger("ray").setLevel(logging.WARNING)
    try:
        ray.init(address or None, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        # The cause may quote a traceback, which ends with the error that matters.
        why = " ".join(str(error.__cause__ or error).rpartition("Error: ")[2].split())[:300]
        raise NoCluster(f"no Ray cluster can be used at {address or 'this machine'}: {why}") from error
    try:
        yield
    finally:
        ray.shutdown()


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
            "a cluster is named by the HOST:PORT of its head, in --ray_address or RAY_ADDRESS, on one of its nodes "
            f"(from elsewhere: `ray job submit -- seed_rl train --launcher=ray ...`); got {address!r}"
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
    """The address of this process's node for other nodes, and a description of the process for logs."""
    ip, node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
    return ip, f"{ip} ({node[:8]}) process {os.getpid()}"
