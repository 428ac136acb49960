"""The metrics that `R2D2Agent.loss` reports."""

from seed_rl.types import Metric

METRICS = (
    Metric("q/value", "return", "mean value of the actions taken"),
    Metric("q/max_value", "return", "the largest of these values in a batch"),
    Metric("q/abs_td_error", "rescaled return", "mean magnitude of the n-step temporal-difference errors"),
)
