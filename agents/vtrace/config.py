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
    """V-trace actor-critic, with the published defaults."""

    clip_reward_input: bool = True

    metrics: ClassVar[tuple[Metric, ...]] = METRICS

    # Loss
    lambda_: UnitInterval = 1.0
    """Mixes the one-step target (0) and the full correction (1)."""
    gae: bool = False
    """Generalised advantage estimation (arXiv:1506.02438) in place of V-trace: targets and advantages as if the learned
    policy had acted."""
    clip_rho: NonNegative = 1.0
    """rho_bar, upper bound of the importance weights in the targets; 0: none."""
    clip_pg_rho: NonNegative = 1.0
    """Upper bound of the importance weights in the policy gradient; 0: none."""
    baseline_cost: NonNegative = 0.5
    """Weight of half the mean squared error of the value."""
    entropy_cost: NonNegative = 0.00025
    """Weight of the entropy bonus, or its initial value with `target_entropy`."""
    target_entropy: float | None = None
    """Nats; the entropy cost is then a Lagrange multiplier that drives the mean entropy towards this."""
    entropy_cost_adjustment_speed: NonNegative = 10.0
    """Learning rate of the log of the entropy cost, as a multiple of the optimizer's; only with `target_entropy`."""
    continuous_policy: ContinuousPolicy = "squashed"
    """Continuous actions come from normal variables: `squashed` by tanh, with deviations that depend on the state, or
    `clipped` to the bounds, with deviations that don't (PPO's choice)."""
    initial_deviation: Annotated[float, Within(0.01, 100)] = 1.0
    """Of these variables, on the scale on which the bounds are -1 and 1: the standard deviation before any update."""
    kl_cost: NonNegative = 0.0
    """Weight of the mean of log mu - log pi."""
    advantage_norm: bool = False
    """Standardise the advantages of each batch, or minibatch on each training device, as PPO implementations do."""
    value_norm: bool = False
    """PopArt (arXiv:1809.04474): errors of the value, and advantages, in deviations of the value targets."""

    # Reuse of a batch: `Experiment.passes`, `Experiment.minibatches`
    clip_ratio: NonNegative = 0.0
    """epsilon of PPO's surrogate (arXiv:1707.06347): a probability ratio to the behaviour policy gains nothing beyond
    1 +- epsilon; 0: the policy gradient of V-trace."""
    target_network: bool = False
    """Take value targets, advantages and the middle of the clipped ratio from a target network (IMPACT,
    arXiv:1912.00167); with `target_update_period` 1, from the weights before the passes over a batch, as PPO does."""
    clip_value: NonNegative = 0.0
    """A value that is this far from that of the target network, on the way to its target, moves no further; 0: no such
    bound. In units of reward, or with `value_norm` in deviations."""
    kl_stop: NonNegative = 0.0
    """Nats: an update ends before the first optimizer step in whose minibatch the policy is this far from the one that
    acted; 0: never."""

    def __post_init__(self):
        super().__post_init__()
        name = type(self).__name__
        if self.target_entropy is not None and self.entropy_cost <= 0:
            raise ValueError(f"{name}.target_entropy needs a positive {name}.entropy_cost to start from")
        if self.target_network and not self.clip_ratio:
            raise ValueError(f"{name}.target_network needs a positive {name}.clip_ratio, whose middle it is")
        if self.clip_value and not self.target_network:
            raise ValueError(f"{name}.clip_value needs {name}.target_network, whose values it is measured from")

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> VTraceAgent:
        from seed_rl.agents.vtrace.agent import VTraceAgent

        return VTraceAgent(self, env_spec, seed)
