"""Benchmarks: what each part of the pipeline can do alone, and what the whole does."""
