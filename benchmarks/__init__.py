"""Benchmarks of the single components and of whole runs; `scripts/bench.sh` lists them."""


class BenchmarkError(Exception):
    """A benchmark can't run or has failed; the message is one sentence."""
