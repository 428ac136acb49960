"""Settings of PPO, which is the V-trace agent with other defaults."""

from __future__ import annotations

import dataclasses

import gin

from seed_rl.agents.vtrace.config import ContinuousPolicy, VTrace
from seed_rl.networks.config import Initializer
from seed_rl.settings import Count, NonNegative, UnitInterval


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PPO(VTrace):
    """Proximal policy optimisation.

    `target_network` holds the weights from before the passes over a batch: advantages, value targets and the middle of
    the ratio stay the same in all of them. Passes and minibatches are `Experiment.passes` and `Experiment.minibatches`.
    """

    clip_reward_input: bool = False
    kernel_initializer: Initializer = "orthogonal"
    continuous_policy: ContinuousPolicy = "clipped"
    unroll_length: Count = 128
    lambda_: UnitInterval = 0.95
    gae: bool = True
    clip_ratio: NonNegative = 0.2
    target_network: bool = True
    advantage_norm: bool = True
    entropy_cost: NonNegative = 0.0
