"""Settings common to agents. Only `AgentConfig.build` imports TensorFlow."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Annotated, ClassVar

from seed_rl.settings import Count, NonNegative, Settings, UnitInterval, Within
from seed_rl.specs import EnvSpec
from seed_rl.types import Metric

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent


@dataclasses.dataclass(frozen=True)
class AgentConfig(Settings, abc.ABC):
    """Settings of an agent, checked on construction."""

    learns_from_replay: ClassVar[bool] = False
    """Whether batches are sampled from a replay (`Experiment.replay`) or come straight from acting."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Rows for the table of metrics: those that the loss reports in addition to `loss/total`."""

    unroll_length: Count = 100
    """T, agent steps that an unroll adds to the experience that is learned from."""
    discount: UnitInterval = 0.99
    """gamma, per agent step."""
    reward_scale: NonNegative = 1.0
    """Factor of the rewards in the loss, applied before they are clipped."""
    max_abs_reward: NonNegative = 0.0
    """Rewards are clipped to [-x, x] in the loss; 0: not clipped."""
    truncation_is_termination: bool = False
    """Treat the end of an episode at a time limit as terminal, with no value after it, as the original does. By default
    targets bootstrap from the value of its last state."""

    @property
    def largest_value(self) -> float | None:
        """The largest magnitude of a discounted return; None where rewards or time have no bound."""
        return self.max_abs_reward / (1.0 - self.discount) if self.max_abs_reward and self.discount < 1 else None

    @abc.abstractmethod
    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> Agent:
        """The agent for environments of `env_spec`; its weights are drawn from `seed`.

        Args:
          env_spec: observations and actions of the environments.
          num_training_envs: environments with ids below this are learned from, those above are for evaluation.
          seed: of the weights.

        Raises:
          CannotAct: the agent does not support such environments.
        """


@dataclasses.dataclass(frozen=True)
class TargetConfig(Settings):
    """Settings of agents whose loss reads a target network, a frozen copy that follows the weights."""

    target_update_period: Count = 1
    """Learner updates between two updates of the target network."""
    target_update_rate: Annotated[float, Within(1e-6, 1)] = 1.0
    """tau: each moves it by this share of its distance to the weights. 1: copies them; 0.005 at a period of 1: Polyak
    averaging."""
