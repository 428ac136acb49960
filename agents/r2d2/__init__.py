"""R2D2 (Kapturowski et al., ICLR 2019): recurrent Q-learning from a prioritized replay, as in SEED RL."""

import dataclasses
from typing import Annotated, ClassVar

import gin

from seed_rl.agents.config import AgentConfig, TargetConfig
from seed_rl.networks.config import TrunkConfig
from seed_rl.settings import Count, NonNegative, UnitInterval, Within
from seed_rl.types import Metric


@gin.configurable
@dataclasses.dataclass(frozen=True)
class R2D2(TrunkConfig, TargetConfig, AgentConfig):
    """R2D2, recurrent replay distributed DQN; the defaults are those published for Atari."""

    agent_class: ClassVar[str] = "seed_rl.agents.r2d2.agent:R2D2Agent"
    learns_from_replay: ClassVar[bool] = True
    actions: ClassVar[str] = "discrete"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("q/value", "return", "mean value of the actions taken"),
        Metric("q/max_value", "return", "the largest of these values in a batch"),
        Metric("q/abs_td_error", "rescaled return", "mean magnitude of the n-step temporal-difference errors"),
    )

    core: str = "lstm"
    core_units: Count = 512
    previous_step_inputs: bool = True
    head_hidden: Annotated[int, Within(1, 65_536)] = 512
    """Units of the hidden layer in each of the two heads."""

    # Data
    unroll_length: Count = 80
    """T, agent steps per sequence that contribute to the loss."""
    burn_in: Annotated[int, Within(0)] = 40
    """Agent steps before those, in which both networks only update their recurrent state, without gradients."""

    # Targets
    discount: UnitInterval = 0.997
    n_steps: Count = 5
    """Number of rewards in a target before it bootstraps."""
    quantiles: Annotated[int, Within(0, 1024)] = 0
    """N: learn N quantiles of each action's return, whose mean is Q, by quantile Huber regression (QR-DQN,
    arXiv:1710.10044); 1: by half the Huber loss of Q; 0: learn Q by least squares."""
    value_rescaling: bool = True
    """Learn h(Q) instead of Q, where h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x; rewards then need no clipping."""
    munchausen: UnitInterval = 0.0
    """alpha: add the clipped log-probability of the action taken to its reward, and bootstrap from soft values, both of
    the target network (Munchausen reinforcement learning, arXiv:2007.14430); 0: double Q-learning."""
    temperature: Annotated[float, Within(1e-6, 1e6)] = 0.03
    """tau of its policy softmax(Q / tau), in units of clipped rewards."""
    target_update_period: Count = 2500
    max_priority_weight: UnitInterval = 0.9
    """eta: the priority of a sequence is eta max|TD| + (1 - eta) mean|TD|."""

    # Exploration: training environment i of N takes a random action with probability base^x, where x is linear in i.
    epsilon_base: UnitInterval = 0.4
    """The base of this power."""
    epsilon_low: NonNegative = 1.0
    """The exponent x of the first environment."""
    epsilon_high: NonNegative = 8.0
    """The exponent x of the last training environment."""
    epsilon_updates: Annotated[int, Within(0)] = 0
    """Learner updates over which the least epsilon of training environments falls linearly from 1 to 0: a run begins
    with random play. 0: it does not."""
    eval_epsilon: UnitInterval = 1e-3
    """Probability of a random action in evaluation environments."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.munchausen and self.value_rescaling:
            raise ValueError("R2D2.munchausen needs R2D2.value_rescaling = False: its terms are in units of rewards")
