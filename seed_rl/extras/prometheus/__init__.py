"""Metrics of a run in Prometheus' text format (`--metrics_address`)."""
