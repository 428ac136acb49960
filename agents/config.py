"""Settings common to agents. TensorFlow is not imported here, but from `AgentConfig.build` on only."""

from __future__ import annotations

import abc
import dataclasses
import re
from typing import TYPE_CHECKING, ClassVar

from seed_rl.settings import check_at_least, check_one_of, check_types
from seed_rl.specs import EnvSpec
from seed_rl.types import Metric

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent

DTYPES = ("float32", "mixed_bfloat16")
INITIALIZERS = ("glorot_uniform", "he_normal", "lecun_normal")
TORSOS = ("auto", "shallow", "deep", "mlp")


class CannotAct(ValueError):
    """An agent can't act in environments of some kind; the message says what it needs and what it got."""


@dataclasses.dataclass(frozen=True)
class AgentConfig(abc.ABC):
    """Settings of an agent, checked on construction."""

    learns_from_replay: ClassVar[bool] = False
    """Whether the agent is a `ReplayAgent`, whose batches come from a replay and not straight from acting."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Rows for the table of metrics: those that the loss reports in addition to `loss/total`."""

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
class TrunkConfig(AgentConfig):
    """Settings of the trunk that agents share."""

    torso: str = "auto"
    """What pictures (uint8 [H, W, C]) and bit planes (uint16 [H, W]) go through. `shallow`: three convolutions (Nature
    DQN); `deep`: the ResNet of IMPALA; `mlp`: dense layers, for small boards; `auto`: shallow, or mlp if they are too
    small for it; `module:Class`: a Keras layer of your own (`networks.torsos.own_torso`). All other observations go
    through dense layers in any case."""
    hidden: int = 0
    """Units of the dense layer behind the convolutions, and of the dense layers; 0: 512 (shallow) or 256."""
    mlp_layers: int = 1
    """Dense layers where there are no convolutions."""
    channels: tuple = (16, 32, 32)
    """Of the stages of the ResNet."""
    residual_blocks: int = 2
    """In each stage of the ResNet."""
    lstm_units: int = 0
    """Units of the LSTM; 0: feed-forward."""
    previous_step_inputs: bool = False
    """Feed the last reward (which V-trace clips to [-1, 1]) and the last action (one-hot, or scaled to [-1, 1]) to what
    follows the torso."""
    frame_stack: int = 4
    """Pictures the torso sees, stacked on the learner's device; 1: none but the current one."""
    kernel_initializer: str = "glorot_uniform"
    """Of the convolutions and the layer behind them, by its Keras name; `he_normal` keeps the scale of activations
    through ReLUs, and learns faster in the shallow network."""
    dtype: str = "float32"
    """`float32` or `mixed_bfloat16` (computes in bfloat16, keeps float32 weights)."""

    def __post_init__(self):
        super().__post_init__()
        if not re.fullmatch(r"[\w.]+:\w+", self.torso):
            check_one_of(self, (*TORSOS, "module:Class"), "torso")
        check_one_of(self, DTYPES, "dtype")
        check_one_of(self, INITIALIZERS, "kernel_initializer")
        check_at_least(self, 1, "frame_stack", "mlp_layers", "residual_blocks")
        if not self.channels or not all(type(n) is int and n >= 1 for n in self.channels):
            raise ValueError(f"{type(self).__name__}.channels must be positive integers, got {self.channels!r}")
        check_at_least(self, 0, "hidden", "lstm_units")
