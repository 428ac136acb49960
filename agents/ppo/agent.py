"""The PPO agent."""

from __future__ import annotations

from typing import Any

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.actor_critic.terms import ActorCriticLoss
from seed_rl.agents.ppo.config import PPO
from seed_rl.agents.ppo.loss import Targets, ppo_loss, ppo_targets
from seed_rl.types import Unroll


class PPOAgent(ActorCriticAgent[PPO]):
    """Learns in several passes over each batch, with advantages and targets from the weights before the first one."""

    def targets(self, unroll: Unroll) -> Targets:
        output, _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        return ppo_targets(self.actions, output, unroll, self.config)

    def actor_critic_loss(self, output: NetworkOutput, unroll: Unroll, entropy_cost: Any) -> ActorCriticLoss:
        return ppo_loss(self.actions, output, unroll, entropy_cost, self.value_unit, self.config)
