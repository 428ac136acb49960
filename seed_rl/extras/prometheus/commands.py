"""The flag with which a run serves its metrics to Prometheus."""

import contextlib
import importlib.util
from collections.abc import Iterator

from seed_rl.cli import flags
from seed_rl.cli.flags import RunOption
from seed_rl.errors import UsageError
from seed_rl.runs.run import Run
from seed_rl.transport.address import parse_address


@contextlib.contextmanager
def _serving(values: flags.FlagValues, run: Run) -> Iterator[None]:
    if not values.metrics_address:
        yield
        return
    address = parse_address(values.metrics_address)
    if address.path:
        raise UsageError(f"--metrics_address must be HOST:PORT, got {address}")
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("--metrics_address needs a package: pip install prometheus-client")
    from seed_rl.extras.prometheus.endpoint import serving

    with serving(address) as gauges:
        run.changes.append(gauges.added_to)
        yield


OPTION = RunOption(flags.string("metrics_address", "", "host:port for Prometheus."), _serving)
