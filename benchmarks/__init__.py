"""Benchmarks of the single components and of whole runs; `scripts/bench.sh` lists them."""

from seed_rl.cli import own_process
from seed_rl.errors import Failure

own_process.claim()  # before any module imports gRPC


class BenchmarkError(Failure):
    """A benchmark can't run or has failed; the message is one line."""
