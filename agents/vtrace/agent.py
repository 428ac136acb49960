"""The V-trace agent."""

from typing import Any

import tensorflow as tf

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.terms import Decisions
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss


class VTraceAgent(ActorCriticAgent[VTrace]):
    """Learns with V-trace from unrolls of a slightly older policy."""

    def actor_critic_loss(self, made: Decisions, targets: Any, entropy_cost: Any) -> dict[str, tf.Tensor]:
        return vtrace_loss(made, entropy_cost, self.config)
