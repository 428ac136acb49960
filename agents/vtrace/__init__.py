"""V-trace actor-critic, the learning algorithm of IMPALA (arXiv:1802.01561), as in SEED RL."""

import dataclasses
from typing import ClassVar

import gin

from seed_rl.agents.actor_critic.config import ActorCriticConfig
from seed_rl.settings import NonNegative
from seed_rl.types import Metric


@gin.configurable
@dataclasses.dataclass(frozen=True)
class VTrace(ActorCriticConfig):
    """V-trace actor-critic with the published defaults."""

    agent_class: ClassVar[str] = "seed_rl.agents.vtrace.agent:VTraceAgent"

    clip_reward_input: bool = True

    metrics: ClassVar[tuple[Metric, ...]] = (
        *ActorCriticConfig.metrics,
        Metric("loss/kl", "", "KL divergence between acting and learned policy, times `kl_cost`"),
        Metric("learning/clipped_share", "share", "fraction of importance weights above `clip_rho`"),
        Metric("learning/clipped_mass", "share", "total variation distance between learned and acting policy"),
    )

    clip_rho: NonNegative = 1.0
    """rho_bar, upper bound of the importance weights in the targets; 0: no bound."""
    clip_pg_rho: NonNegative = 1.0
    """Upper bound of the importance weights in the policy gradient; 0: no bound. Not used with `clip_ratio`."""
    kl_cost: NonNegative = 0.0
    """Weight of the mean of log mu - log pi."""
