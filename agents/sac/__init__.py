"""Soft actor-critic (arXiv:1812.05905): off-policy learning of continuous actions from a replay on the device."""

from seed_rl.agents.sac.config import SAC

__all__ = ["SAC"]
