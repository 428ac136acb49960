"""Benchmarks of the single components and of whole runs; `scripts/bench.sh` lists them."""

import seed_rl.transport  # noqa: F401  sets gRPC up, before any module imports it


class BenchmarkError(Exception):
    """A benchmark can't run or has failed; the message is one line."""
