"""V-trace actor-critic, the learner of IMPALA (arXiv:1802.01561) as SEED RL runs it."""

from seed_rl.agents.vtrace.config import VTrace

__all__ = ["VTrace"]
