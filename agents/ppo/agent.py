"""The PPO agent."""

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.actor_critic.terms import Decisions, Terms
from seed_rl.agents.ppo.config import PPO
from seed_rl.agents.ppo.loss import Targets, ppo_targets, ppo_terms
from seed_rl.types import Unroll


class PPOAgent(ActorCriticAgent[PPO]):
    """Learns in several passes over each batch, with advantages and targets from the weights before the first one."""

    def targets(self, unroll: Unroll) -> Targets:
        return ppo_targets(self.review(unroll)[1], self.config)

    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        return ppo_terms(made, unroll.targets, self.config)
