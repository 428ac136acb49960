"""Soft actor-critic (arXiv:1812.05905): off-policy learning of continuous actions from a replay on the device."""

import dataclasses
from typing import Annotated, ClassVar

import gin

from seed_rl.agents.config import AgentConfig, TargetConfig
from seed_rl.networks.config import TrunkConfig
from seed_rl.settings import Count, Within
from seed_rl.types import Metric


@gin.configurable
@dataclasses.dataclass(frozen=True)
class SAC(TrunkConfig, TargetConfig, AgentConfig):
    """Soft actor-critic with a learned temperature and the published defaults.

    The torso's features (for vectors, by default the numbers themselves), in the critics together with the action, go
    through `head_layers` dense layers of `hidden` units.
    """

    agent_class: ClassVar[str] = "seed_rl.agents.sac.agent:SACAgent"
    learns_from_replay: ClassVar[bool] = True
    has_critic: ClassVar[bool] = True
    actions: ClassVar[str] = "continuous"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss/critics", "", "half the squared errors of both critics"),
        Metric("loss/actor", "", "temperature times log pi(a), minus the smaller of the critics' values of a"),
        Metric("policy/entropy", "nats", "mean entropy of the learned policy; may be negative for a density"),
        Metric("policy/temperature", "", "weight of the entropy bonus, adapted to reach the target entropy"),
        Metric("q/value", "return", "mean value of the actions taken, including the entropy bonus"),
        Metric("q/abs_td_error", "return", "mean magnitude of the critics' errors"),
    )

    hidden: Annotated[int, Within(1, 65_536)] = 256
    mlp_layers: Annotated[int, Within(0, 64)] = 0
    head_layers: Annotated[int, Within(1, 64)] = 2
    """Number of hidden dense layers after the torso, in the actor and in each critic."""
    unroll_length: Count = 1
    n_steps: Count = 1
    """Number of rewards in a target before it bootstraps. All but the first result from actions of an older policy."""
    target_update_rate: Annotated[float, Within(1e-6, 1)] = 0.005
    initial_temperature: Annotated[float, Within(1e-6)] = 1.0
    """alpha at the start of a run."""
    entropy_per_dimension: float = -1.0
    """Target of the policy's entropy, nats per action dimension, for actions scaled to [-1, 1]."""

    def __post_init__(self):
        super().__post_init__()
        if self.core != "none":
            raise ValueError(f"SAC.core must be 'none' because its critics have no recurrent state, got {self.core!r}")
        if self.observation_norm:
            raise ValueError("SAC.observation_norm must be False because its networks keep no running statistics")
