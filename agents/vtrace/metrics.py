"""The metrics of V-trace, as `vtrace_loss` reports them."""

from seed_rl.types import Metric

METRICS = (
    Metric("loss/policy", "", "policy gradient loss"),
    Metric("loss/baseline", "", "squared error of the value, times `baseline_cost`"),
    Metric("loss/entropy", "", "negative entropy of the policy, times its cost"),
    Metric("loss/kl", "", "KL divergence between acting and learned policy, times `kl_cost`"),
    Metric("policy/entropy", "nats", "of the learned policy, mean over steps"),
    Metric("policy/entropy_cost", "", "current weight, where `target_entropy` adapts it"),
    Metric("policy/kl_behaviour_target", "nats", "KL divergence between acting and learned policy"),
    Metric("policy/mean_abs_advantage", "return", "mean magnitude of the advantages, before they are standardised"),
    Metric("policy/mean_value", "return", "mean value estimate"),
    Metric(
        "policy/value_unit", "return", "in which values are learned: the deviation of their targets with `value_norm`"
    ),
    Metric(
        "learning/value_to_bound",
        "",
        "mean magnitude of the values over the largest value, `max_abs_reward` / (1 - `discount`)",
    ),
    Metric("learning/explained_variance", "share", "of the variance of the value targets, by the values; at least -1"),
    Metric("learning/clipped_share", "share", "of importance weights above `clip_rho`; not with `gae`"),
    Metric("learning/clipped_mass", "share", "of the learned policy that `clip_rho` cuts off; not with `gae`"),
    Metric("learning/entropy_share", "share", "of the largest entropy, that of equally likely actions; if discrete"),
)
