"""PQN (arXiv:2407.04811): Q(lambda) from fresh unrolls of many environments, without replay or target network."""

import dataclasses
from typing import ClassVar

import gin

from seed_rl.agents.config import AgentConfig
from seed_rl.networks.config import Initializer, LayerNorm, TrunkConfig
from seed_rl.settings import Count, UnitInterval
from seed_rl.types import Metric


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PQN(TrunkConfig, AgentConfig):
    """Parallelised Q-network. Layer normalisation keeps it stable without a target network."""

    agent_class: ClassVar[str] = "seed_rl.agents.pqn.agent:PQNAgent"
    actions: ClassVar[str] = "discrete"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("q/value", "return", "mean value of the actions taken"),
        Metric("q/max_value", "return", "the largest of these values in a batch"),
        Metric("q/abs_td_error", "return", "mean magnitude of the errors to the lambda-returns"),
        Metric("q/epsilon", "share", "of actions of training environments that are random"),
    )

    layer_norm: LayerNorm = "all"
    kernel_initializer: Initializer = "he_normal"
    unroll_length: Count = 32
    lambda_: UnitInterval = 0.65
    """Mixes the one-step target (0) and the Monte Carlo return (1)."""
    epsilon: UnitInterval = 1.0
    """Probability of a random action at the start of a run."""
    final_epsilon: UnitInterval = 0.001
    """The same after `epsilon_updates`, and in evaluation environments."""
    epsilon_updates: Count = 1000
    """Learner updates over which it falls, linearly."""
