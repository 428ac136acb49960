"""The metrics that the losses of actor-critic agents report."""

from seed_rl.types import Metric

METRICS = (
    Metric("loss/policy", "", "policy gradient loss"),
    Metric("loss/baseline", "", "squared error of the value, times `baseline_cost`"),
    Metric("loss/entropy", "", "negative entropy of the policy, times its cost"),
    Metric("policy/entropy", "nats", "mean entropy of the learned policy"),
    Metric("policy/entropy_cost", "", "current entropy cost, if `target_entropy` adapts it"),
    Metric("policy/kl_behaviour_target", "nats", "KL divergence between acting and learned policy"),
    Metric("policy/mean_abs_advantage", "return", "mean magnitude of the advantages, before standardisation"),
    Metric("policy/mean_value", "return", "mean value estimate"),
    Metric(
        "policy/value_unit", "return", "unit in which values are learned: with `value_norm`, the targets' deviation"
    ),
    Metric(
        "learning/value_to_bound",
        "",
        "mean magnitude of the values, divided by the largest one possible, `max_abs_reward` / (1 - `discount`)",
    ),
    Metric(
        "learning/explained_variance", "share", "fraction of the targets' variance that the values explain; at least -1"
    ),
    Metric("learning/entropy_share", "share", "entropy relative to that of equally likely actions; if discrete"),
)
