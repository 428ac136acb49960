"""PQN (arXiv:2407.04811): Q(lambda) from fresh unrolls of many environments, without replay or target network."""

from seed_rl.agents.pqn.config import PQN

__all__ = ["PQN"]
