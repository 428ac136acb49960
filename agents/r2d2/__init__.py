"""R2D2 (Kapturowski et al., ICLR 2019): recurrent Q-learning from a prioritized replay, as in SEED RL."""

from seed_rl.agents.r2d2.config import R2D2

__all__ = ["R2D2"]
