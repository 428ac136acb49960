"""The V-trace agent."""

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.actor_critic.terms import Decisions, Terms
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_terms
from seed_rl.types import Unroll


class VTraceAgent(ActorCriticAgent[VTrace]):
    """Learns with V-trace from unrolls of a slightly older policy."""

    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        return vtrace_terms(made, self.config)
