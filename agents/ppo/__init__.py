"""PPO (arXiv:1707.06347): a clipped ratio, GAE, and several passes over each batch."""

from seed_rl.agents.ppo.config import PPO

__all__ = ["PPO"]
