"""Settings of the V-trace agent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import gin

from seed_rl.agents.config import DTYPES, AgentConfig
from seed_rl.settings import check_at_least, check_one_of, check_range, check_types
from seed_rl.specs import EnvSpec

if TYPE_CHECKING:
    from seed_rl.agents.vtrace.agent import VTraceAgent

INITIALIZERS = ("glorot_uniform", "he_normal", "lecun_normal")
TORSOS = ("shallow", "deep", "mlp")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class VTrace(AgentConfig):
    """V-trace actor-critic. Defaults are the published ones where no experiment says otherwise."""

    # Network
    torso: str = "shallow"
    """`shallow`: three convolutions (Nature DQN); `deep`: the ResNet of IMPALA;
    `mlp`: one dense layer, for small boards."""
    hidden: int = 0
    """Units of the dense layer behind the convolutions; 0: 512 (shallow) or 256."""
    lstm_units: int = 0
    """Units of the LSTM (the paper uses 256); 0: feed-forward."""
    previous_step_inputs: bool = False
    """Feed the last reward (clipped to [-1, 1]) and the last action (one-hot) to the layers after the torso."""
    frame_stack: int = 4
    """Frames the torso sees, stacked on the learner's device; 1: none but the current one."""
    kernel_initializer: str = "glorot_uniform"
    """Of the convolutions and the layer behind them, by its Keras name; `he_normal` keeps the scale of activations
    through ReLUs, and learns faster in the shallow network."""
    dtype: str = "float32"
    """`float32` or `mixed_bfloat16` (computes in bfloat16, keeps float32 weights)."""

    # Data
    unroll_length: int = 100
    """T, agent steps per unroll."""

    # Loss
    discount: float = 0.99
    lambda_: float = 1.0
    clip_rho: float = 1.0
    """rho_bar, bound of the importance weights in the targets."""
    clip_pg_rho: float = 1.0
    """Bound of the importance weights in the policy gradient."""
    max_abs_reward: float = 0.0
    """Rewards are clipped to [-x, x] in the loss; 0: not clipped."""
    baseline_cost: float = 0.5
    entropy_cost: float = 0.00025
    """Weight of the entropy bonus, or its initial value with `target_entropy`."""
    target_entropy: float | None = None
    """Nats; adjusts the entropy cost as a Lagrange multiplier so that the mean entropy approaches this."""
    entropy_cost_adjustment_speed: float = 10.0
    kl_cost: float = 0.0
    """Weight of the mean of log mu - log pi."""

    def __post_init__(self):
        check_types(self)
        check_one_of(self, TORSOS, "torso")
        check_one_of(self, DTYPES, "dtype")
        check_one_of(self, INITIALIZERS, "kernel_initializer")
        check_at_least(self, 1, "unroll_length", "frame_stack")
        check_range(self, 0, 1, "discount", "lambda_")
        check_at_least(self, 0, "hidden", "lstm_units", "clip_rho", "clip_pg_rho", "max_abs_reward", "baseline_cost")
        check_at_least(self, 0, "entropy_cost", "entropy_cost_adjustment_speed", "kl_cost")
        if self.target_entropy is not None and self.entropy_cost <= 0:
            raise ValueError("VTrace.target_entropy needs a positive VTrace.entropy_cost to start from")

    def build(self, env_spec: EnvSpec, seed: int) -> VTraceAgent:
        from seed_rl.agents.vtrace.agent import VTraceAgent

        return VTraceAgent(self, env_spec, seed)
