"""Settings common to agents. TensorFlow is not imported here, but from `AgentConfig.build` on only."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

from seed_rl.settings import check_at_least, check_one_of, check_types
from seed_rl.specs import EnvSpec

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent

DTYPES = ("float32", "mixed_bfloat16")
INITIALIZERS = ("glorot_uniform", "he_normal", "lecun_normal")
TORSOS = ("shallow", "deep", "mlp")


class CannotAct(ValueError):
    """An agent can't act in environments of some kind; the message says what it needs and what it got."""


@dataclasses.dataclass(frozen=True)
class AgentConfig(abc.ABC):
    """Settings of an agent, checked on construction."""

    learns_from_replay: ClassVar[bool] = False
    """Whether the agent is a `ReplayAgent`, whose batches come from a replay and not straight from acting."""

    unroll_length: int = 100
    """T, agent steps that an unroll adds to what is learned from."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "unroll_length")

    @abc.abstractmethod
    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> Agent:
        """The agent for environments of `env_spec`; its weights are drawn from `seed`.

        Args:
          env_spec: what the environments take and give.
          num_training_envs: environments with ids below this are learned from, those above are for evaluation.
          seed: of the weights.

        Raises:
          CannotAct: not in such environments.
        """


@dataclasses.dataclass(frozen=True)
class ImageAgentConfig(AgentConfig):
    """Settings of the trunk that agents share which see images and act in discrete action spaces."""

    torso: str = "shallow"
    """`shallow`: three convolutions (Nature DQN); `deep`: the ResNet of IMPALA;
    `mlp`: one dense layer, for small boards."""
    hidden: int = 0
    """Units of the dense layer behind the convolutions; 0: 512 (shallow) or 256."""
    lstm_units: int = 0
    """Units of the LSTM; 0: feed-forward."""
    previous_step_inputs: bool = False
    """Feed the last reward (which V-trace clips to [-1, 1]) and the last action (one-hot) to what follows the torso."""
    frame_stack: int = 4
    """Frames the torso sees, stacked on the learner's device; 1: none but the current one."""
    kernel_initializer: str = "glorot_uniform"
    """Of the convolutions and the layer behind them, by its Keras name; `he_normal` keeps the scale of activations
    through ReLUs, and learns faster in the shallow network."""
    dtype: str = "float32"
    """`float32` or `mixed_bfloat16` (computes in bfloat16, keeps float32 weights)."""

    def __post_init__(self):
        super().__post_init__()
        check_one_of(self, TORSOS, "torso")
        check_one_of(self, DTYPES, "dtype")
        check_one_of(self, INITIALIZERS, "kernel_initializer")
        check_at_least(self, 1, "frame_stack")
        check_at_least(self, 0, "hidden", "lstm_units")
