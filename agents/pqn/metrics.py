"""The metrics of PQN, as `PQNAgent.loss` reports them."""

from seed_rl.types import Metric

METRICS = (
    Metric("q/value", "return", "mean value of the actions taken"),
    Metric("q/max_value", "return", "the largest of these values in a batch"),
    Metric("q/abs_td_error", "return", "mean magnitude of the errors to the lambda-returns"),
    Metric("q/epsilon", "share", "of actions of training environments that are random"),
)
