"""Settings that V-trace and PPO share."""

import dataclasses
from typing import Annotated, ClassVar, TypeAlias

from seed_rl.agents.config import AgentConfig
from seed_rl.networks.config import TrunkConfig
from seed_rl.settings import NonNegative, OneOf, UnitInterval, Within
from seed_rl.types import Metric

ContinuousPolicy: TypeAlias = Annotated[str, OneOf("squashed", "clipped")]


@dataclasses.dataclass(frozen=True)
class ActorCriticConfig(TrunkConfig, AgentConfig):
    """Settings of an agent with a policy and a value."""

    has_critic: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss/policy", "", "policy gradient loss"),
        Metric("loss/baseline", "", "squared error of the value, times `baseline_cost`"),
        Metric("loss/entropy", "", "negative entropy of the policy, times its cost"),
        Metric("policy/entropy", "nats", "mean entropy of the learned policy, 0 in steps where nothing is decided"),
        Metric("policy/entropy_cost", "", "current entropy cost, if `target_entropy` adapts it"),
        Metric("policy/kl_behaviour_target", "nats", "KL divergence between acting and learned policy"),
        Metric("policy/mean_abs_advantage", "return", "mean magnitude of the advantages, before standardisation"),
        Metric("policy/mean_abs_scaled_advantage", "", "the same, in value units or standardised, as in the loss"),
        Metric("policy/mean_value", "return", "mean value estimate"),
        Metric("policy/value_unit", "return", "unit of the learned values: with `value_norm`, the targets' deviation"),
        Metric("learning/value_to_bound", "", "mean magnitude of values over `max_abs_reward` / (1 - `discount`)"),
        Metric("learning/explained_variance", "share", "share of the targets' variance that values explain; from -1"),
        Metric("learning/entropy_share", "share", "entropy relative to that of equally likely actions; if discrete"),
    )

    lambda_: UnitInterval = 1.0
    """Interpolates between the one-step target (0) and the full return (1)."""
    baseline_cost: NonNegative = 0.5
    """Weight of half the mean squared error of the value."""
    entropy_cost: NonNegative = 0.00025
    """Weight of the entropy bonus; with `target_entropy`, its initial value."""
    target_entropy: float | None = None
    """Target of the mean entropy, nats; the entropy cost is then adapted as a Lagrange multiplier. None: fixed cost."""
    entropy_cost_adjustment_speed: NonNegative = 10.0
    """Learning rate of the log of the entropy cost, as a multiple of the optimizer's; only with `target_entropy`."""
    continuous_policy: ContinuousPolicy = "squashed"
    """Continuous actions are normal variables: `squashed` by tanh, with state-dependent standard deviations, or
    `clipped` to the bounds, with state-independent standard deviations (PPO's choice)."""
    initial_deviation: Annotated[float, Within(0.01, 100)] = 1.0
    """Initial standard deviation of these variables, on the scale on which the bounds are -1 and 1."""
    advantage_norm: bool = False
    """Standardise the advantages in each batch (or minibatch, per training device), as PPO implementations do."""
    value_norm: bool = False
    """PopArt (arXiv:1809.04474): measure value errors and advantages in standard deviations of the value targets."""
    clip_ratio: NonNegative = 0.0
    """epsilon of PPO's clipped surrogate (arXiv:1707.06347), which does not reward ratios of the policies outside of
    1 +- epsilon; 0: the policy gradient."""
    explore_after: Annotated[int, Within(0)] = 0
    """Agent steps without a reward after which a training environment explores by holding its actions for longer, until
    there is one (`rl.exploration.hold`); 0: never. Actions with numbers are not held."""

    def __post_init__(self):
        super().__post_init__()
        name = type(self).__name__
        if self.target_entropy is not None and self.entropy_cost <= 0:
            raise ValueError(f"{name}.target_entropy needs a positive {name}.entropy_cost to start from")
