"""The V-trace agent."""

from __future__ import annotations

from typing import Any

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.actor_critic.terms import ActorCriticLoss
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.types import Unroll


class VTraceAgent(ActorCriticAgent[VTrace]):
    """Learns with V-trace from unrolls of a slightly older policy."""

    def actor_critic_loss(self, output: NetworkOutput, unroll: Unroll, entropy_cost: Any) -> ActorCriticLoss:
        return vtrace_loss(self.actions, output, unroll, entropy_cost, self.value_unit, self.config)
