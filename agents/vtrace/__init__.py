"""V-trace actor-critic, the learning algorithm of IMPALA (arXiv:1802.01561), as in SEED RL."""

from seed_rl.agents.vtrace.config import VTrace

__all__ = ["VTrace"]
