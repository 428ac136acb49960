"""Benchmarks of the single components and of whole runs; `scripts/bench.sh` lists them."""

import seed_rl.transport  # noqa: F401  sets gRPC up, before any module imports it
from seed_rl.errors import Failure


class BenchmarkError(Failure):
    """A benchmark can't run or has failed; the message is one line."""
