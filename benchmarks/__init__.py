"""Benchmarks: the speed of each component alone and of the whole; `scripts/bench.sh` lists them."""


class BenchmarkError(Exception):
    """A benchmark can't run, or has failed; the message is one sentence."""
