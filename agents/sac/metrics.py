"""The metrics that `SACAgent.loss` reports."""

from seed_rl.types import Metric

METRICS = (
    Metric("loss/critics", "", "half the squared errors of both critics"),
    Metric("loss/actor", "", "temperature times log pi(a), minus the smaller of the critics' values of a"),
    Metric("policy/entropy", "nats", "mean entropy of the learned policy; may be negative for a density"),
    Metric("policy/temperature", "", "weight of the entropy bonus, adapted to reach the target entropy"),
    Metric("q/value", "return", "mean value of the actions taken, including the entropy bonus"),
    Metric("q/abs_td_error", "return", "mean magnitude of the critics' errors"),
)
