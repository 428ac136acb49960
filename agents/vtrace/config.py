"""Settings of the V-trace agent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import gin

from seed_rl.agents.config import AgentConfig, TargetConfig
from seed_rl.agents.vtrace.metrics import METRICS
from seed_rl.networks.config import TrunkConfig
from seed_rl.settings import NonNegative, OneOf, UnitInterval, Within
from seed_rl.specs import EnvSpec
from seed_rl.types import Metric

if TYPE_CHECKING:
    from seed_rl.agents.vtrace.agent import VTraceAgent

ContinuousPolicy: TypeAlias = Annotated[str, OneOf("squashed", "clipped")]


@gin.configurable
@dataclasses.dataclass(frozen=True)
class VTrace(TrunkConfig, TargetConfig, AgentConfig):
    """V-trace actor-critic with the published defaults."""

    clip_reward_input: bool = True

    metrics: ClassVar[tuple[Metric, ...]] = METRICS

    # Loss
    lambda_: UnitInterval = 1.0
    """Interpolates between the one-step target (0) and the full correction (1)."""
    gae: bool = False
    """Use generalised advantage estimation (arXiv:1506.02438) instead of V-trace: targets and advantages are computed
    as if the learned policy had acted."""
    clip_rho: NonNegative = 1.0
    """rho_bar, upper bound of the importance weights in the targets; 0: no bound."""
    clip_pg_rho: NonNegative = 1.0
    """Upper bound of the importance weights in the policy gradient; 0: no bound."""
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
    kl_cost: NonNegative = 0.0
    """Weight of the mean of log mu - log pi."""
    advantage_norm: bool = False
    """Standardise the advantages in each batch (or minibatch, per training device), as PPO implementations do."""
    value_norm: bool = False
    """PopArt (arXiv:1809.04474): measure value errors and advantages in standard deviations of the value targets."""

    # Reuse of a batch: `Experiment.passes`, `Experiment.minibatches`
    clip_ratio: NonNegative = 0.0
    """epsilon of PPO's clipped surrogate (arXiv:1707.06347), which does not reward ratios to the behaviour policy
    outside of 1 +- epsilon; 0: the policy gradient of V-trace."""
    target_network: bool = False
    """Take value targets, advantages and the centre of the clipped ratio from a target network (IMPACT,
    arXiv:1912.00167); with a `target_update_period` of 1, from the weights before the passes over a batch, like PPO."""
    clip_value: NonNegative = 0.0
    """PPO's value clipping: how far a value may move from the target network's towards its own target; 0: no bound. In
    units of reward, or with `value_norm` in standard deviations."""
    kl_stop: NonNegative = 0.0
    """End an update before the first optimizer step in whose minibatch the policy's KL divergence from the acting
    policy exceeds this, nats; 0: never."""

    def __post_init__(self):
        super().__post_init__()
        name = type(self).__name__
        if self.target_entropy is not None and self.entropy_cost <= 0:
            raise ValueError(f"{name}.target_entropy needs a positive {name}.entropy_cost to start from")
        if self.target_network and not self.clip_ratio:
            raise ValueError(f"{name}.target_network needs a positive {name}.clip_ratio, which it is the centre of")
        if self.clip_value and not self.target_network:
            raise ValueError(f"{name}.clip_value needs {name}.target_network, from whose values it is measured")

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> VTraceAgent:
        from seed_rl.agents.vtrace.agent import VTraceAgent

        return VTraceAgent(self, env_spec, seed)
