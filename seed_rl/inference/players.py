"""Who plays the rows of the environments: the learning agent, unless an experiment has opponents."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import ActStep


class Players:
    """The default: the learning agent plays all rows. Subclasses play some of them in its place."""

    evaluates = True
    """Whether returns in evaluation environments say which weights of the agent are the best."""

    def act_step(self, agent: Agent, store: UnrollStore, sizes: Sizes, seed: int, device: str, number: int) -> ActStep:
        """Build what acts for all rows on an inference device, given the arguments of `ActStep` and its number."""
        return ActStep(agent, store, sizes, seed, device)

    def replaced(self, env_ids: np.ndarray) -> np.ndarray:
        """Return bool [B]: which rows, int [B], the agent doesn't play; they are neither recorded nor reported."""
        return np.zeros_like(env_ids, bool)

    def refresh(self, updates: int, frames: int, agent: Agent, seed: int) -> None:
        """Note that all inference devices have got new weights; none acts meanwhile.

        Args:
          updates: number of learner updates so far.
          frames: number of environment frames so far.
          agent: the learning agent.
          seed: seed of draws, different for each start of a run.
        """

    def gauges(self) -> dict[str, float]:
        """Return metrics for the next row of the log."""
        return {}

    def get_state(self) -> dict[str, Any]:
        """Return entries of a checkpoint's state, as JSON values, for `set_state`."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of a checkpoint, before the first `refresh`.

        Raises:
          KeyError, TypeError, ValueError: it lacks entries of `get_state`, or they are wrong.
        """


AGENT_ALONE = Players()
"""The learning agent plays everything."""
