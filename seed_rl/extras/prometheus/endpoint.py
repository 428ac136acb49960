"""An HTTP server with the newest row of metrics, as Prometheus reads it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from seed_rl.errors import UsageError
from seed_rl.reporting.metrics import Sink
from seed_rl.system.files import explaining
from seed_rl.transport.address import Address

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly


class Gauges(Sink, Collector):
    """The newest row as gauges, such as `seed_rl_episode_return`."""

    def __init__(self) -> None:
        self._row: dict[str, float] = {}

    def write(self, row: dict[str, float], wall_time: float) -> None:
        self._row = row

    def close(self) -> None:
        """Keep the last values until the run ends."""

    def added_to(self, assembly: Assembly) -> Assembly:
        """Return an assembly that writes its rows here, too."""
        return assembly._replace(sinks=lambda *which: [self, *assembly.sinks(*which)])

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in {re.sub("[^a-zA-Z0-9_]", "_", name): value for name, value in self._row.items()}.items():
            yield GaugeMetricFamily(f"seed_rl_{name}", "see docs/metrics.md", value=value)


@contextlib.contextmanager
def serving(address: Address) -> Iterator[Gauges]:
    """Serve the yielded gauges to anyone who can reach an address; raise UsageError if it can't be listened on."""
    gauges, registry = Gauges(), CollectorRegistry()
    registry.register(gauges)
    with explaining(UsageError, f"--metrics_address={address} can't be listened on"):
        server, thread = start_http_server(address.port, address.host, registry)
    try:
        yield gauges
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
