"""The connection to a Ray cluster, the reasons for its failures, and metrics as its gauges."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
import ray
from ray.util.metrics import Gauge

from seed_rl.errors import Failure
from seed_rl.reporting.metrics import Sink
from seed_rl.transport.address import AddressError, parse_address

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly

_log = logging.getLogger(__name__)

SLOW_SECONDS = 20.0  # what isn't running by then is waiting for resources
PATIENCE_SECONDS = 300.0  # with fewer actors or nodes than a run needs
_CONNECT_SECONDS = 10.0


class NoCluster(Failure):
    """No usable Ray cluster was found; the message is one line."""


@contextlib.contextmanager
def connecting(address: str) -> Iterator[None]:
    """Connect to a cluster, by default of `RAY_ADDRESS`, of this machine, or a new one; or raise a NoCluster."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's future default, which silences a warning
    if address not in ("", "auto", "local"):
        _check(address)
    logging.getLogger("ray").setLevel(logging.WARNING)
    _log.info("connecting to Ray at %s, or starting it, which may take a minute", address or "this machine")
    directory, before = os.getcwd(), signal.getsignal(signal.SIGTERM)
    try:
        os.chdir("/")  # Ray puts the working directory first in its workers' paths, where a file may shadow any module
        ray.init(address or None, log_to_driver=False, configure_logging=False)
        if before is not None and threading.current_thread() is threading.main_thread():
            # Ray's own prints a stack and aborts.
            signal.signal(signal.SIGTERM, before)
    except Exception as error:  # of any type if the node doesn't start
        ray.shutdown()
        # The cause may quote a traceback, whose last line is the relevant error.
        why = " ".join(str(error.__cause__ or error).rpartition("Error: ")[2].split())[:300]
        raise NoCluster(f"can't use a Ray cluster at {address or 'this machine'}: {why}") from error
    finally:
        os.chdir(directory)
    try:
        yield
    finally:
        ray.shutdown()


def _check(address: str) -> None:
    """Check that a cluster's head is at an address, because Ray itself would retry for a quarter of an hour."""
    try:
        place = parse_address(address)
        socket.create_connection((place.host, place.port), _CONNECT_SECONDS).close()
        if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
            with grpc.insecure_channel(str(place), [("grpc.enable_http_proxy", 0)]) as channel:
                health: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
                health(b"", timeout=_CONNECT_SECONDS)
    except AddressError as error:
        raise NoCluster(
            f"--ray_address or RAY_ADDRESS must be the HOST:PORT of the cluster's head, got {address!r}; this works on "
            "the cluster's nodes (from elsewhere, use `ray job submit -- seed_rl train --launcher=ray ...`)"
        ) from error
    except OSError as error:
        raise NoCluster(f"can't reach a Ray cluster at {address}: {error.strerror or error}") from error
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise NoCluster(
                f"the server at {address} is not the head of a Ray cluster, whose port is 6379 unless `ray start "
                "--port` says otherwise (8265 is the dashboard's, for `ray job submit`)"
            ) from error


def why_it_cannot_start(error: Exception) -> str:
    """Explain the error of a Ray actor whose process can't start; its last line quotes the process."""
    return f"{str(error).strip().splitlines()[-1].strip()}; every node needs seed_rl and its dependencies"


class Gauges(Sink):
    """Gauges such as `ray_seed_rl_episode_return` in Prometheus, with the log directory as the label `run`."""

    def __init__(self, logdir: str):
        self._logdir = logdir
        self._gauges: dict[str, Gauge] = {}

    def write(self, row: dict[str, float], wall_time: float) -> None:
        for name, value in row.items():
            if name not in self._gauges:
                letters = re.sub("[^a-zA-Z0-9_]", "_", name)
                self._gauges[name] = Gauge(f"seed_rl_{letters}", name, tag_keys=("run",))
            self._gauges[name].set(value, {"run": self._logdir})

    def close(self) -> None:
        """See `Sink.close`: Ray shows the last values until its process ends."""


def with_gauges(assembly: Assembly, logdir: str) -> Assembly:
    """Return an assembly whose metrics are gauges, too, with the label `logdir`."""
    return assembly._replace(sinks=lambda parts, resumed: [Gauges(logdir), *assembly.sinks(parts, resumed)])
