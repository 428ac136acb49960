"""Settings common to every agent. TensorFlow is not imported here, but from `AgentConfig.build` on only."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING

from seed_rl.specs import EnvSpec

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent

DTYPES = ("float32", "mixed_bfloat16")


class CannotAct(ValueError):
    """An agent can't act in environments of some kind; the message says what it needs and what it got."""


@dataclasses.dataclass(frozen=True)
class AgentConfig(abc.ABC):
    """Settings of an agent, checked on construction."""

    @abc.abstractmethod
    def build(self, env_spec: EnvSpec, seed: int) -> Agent:
        """The agent for environments of `env_spec`; its weights are drawn from `seed`.

        Raises:
          CannotAct: not in such environments.
        """
