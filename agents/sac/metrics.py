"""The metrics of SAC, as `SACAgent.loss` reports them."""

from seed_rl.types import Metric

METRICS = (
    Metric("loss/critics", "", "half the squared errors of both critics"),
    Metric("loss/actor", "", "temperature times log pi(a) less the smaller value of a"),
    Metric("policy/entropy", "nats", "of the learned policy, mean over steps; a density's may be negative"),
    Metric("policy/temperature", "", "weight of the entropy, which drives it to its target"),
    Metric("q/value", "return", "mean value of the actions taken, entropy bonus included"),
    Metric("q/abs_td_error", "return", "mean magnitude of the critics' errors"),
)
