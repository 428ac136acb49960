"""The metrics that only V-trace reports."""

from seed_rl.types import Metric

METRICS = (
    Metric("loss/kl", "", "KL divergence between acting and learned policy, times `kl_cost`"),
    Metric("learning/clipped_share", "share", "fraction of importance weights above `clip_rho`"),
    Metric("learning/clipped_mass", "share", "fraction of the learned policy that `clip_rho` removes"),
)
