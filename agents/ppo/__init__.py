"""PPO (arXiv:1707.06347): a clipped ratio, GAE, and several passes over each batch."""

import dataclasses
from typing import ClassVar

import gin

from seed_rl.agents.actor_critic.config import ActorCriticConfig, ContinuousPolicy
from seed_rl.networks.config import Initializer
from seed_rl.settings import Count, NonNegative, UnitInterval
from seed_rl.types import Metric


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PPO(ActorCriticConfig):
    """Proximal policy optimisation. `Experiment.passes` and `Experiment.minibatches` say how often a batch is used."""

    agent_class: ClassVar[str] = "seed_rl.agents.ppo.agent:PPOAgent"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *ActorCriticConfig.metrics,
        Metric("policy/clip_fraction", "share", "fraction of the ratios outside of 1 +- `clip_ratio`"),
    )

    kernel_initializer: Initializer = "orthogonal"
    continuous_policy: ContinuousPolicy = "clipped"
    unroll_length: Count = 128
    lambda_: UnitInterval = 0.95
    """lambda of generalised advantage estimation (arXiv:1506.02438)."""
    clip_ratio: NonNegative = 0.2
    advantage_norm: bool = True
    entropy_cost: NonNegative = 0.0

    def __post_init__(self):
        super().__post_init__()
        if not self.clip_ratio:
            raise ValueError("PPO.clip_ratio must be positive, got 0: PPO without a clipped ratio is VTrace")
