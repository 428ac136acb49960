"""The PPO agent."""

from typing import Any

import tensorflow as tf

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.terms import Decisions
from seed_rl.agents.ppo.config import PPO
from seed_rl.agents.ppo.loss import Targets, ppo_loss, ppo_targets
from seed_rl.types import Unroll


class PPOAgent(ActorCriticAgent[PPO]):
    """Learns in several passes over each batch, with advantages and targets from the weights before the first one."""

    def targets(self, unroll: Unroll) -> Targets:
        return ppo_targets(self.decisions(unroll), self.config)

    def actor_critic_loss(self, made: Decisions, targets: Any, entropy_cost: Any) -> dict[str, tf.Tensor]:
        return ppo_loss(made, targets, entropy_cost, self.config)
