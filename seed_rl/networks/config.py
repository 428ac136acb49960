"""Settings of the trunk that agents put their heads on. TensorFlow is not imported here."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from seed_rl.settings import OneOf, Settings, Within

DTYPES = ("float32", "mixed_bfloat16")
Initializer: TypeAlias = Annotated[str, OneOf("glorot_uniform", "he_normal", "lecun_normal", "orthogonal")]
LayerNorm: TypeAlias = Annotated[str, OneOf("none", "features", "all")]


NATURE_DQN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, size and stride of the convolutions of Mnih et al. (Nature, 2015)."""


def smallest_frame(convolutions: Sequence[tuple[int, int, int]]) -> int:
    """The smallest height and width of which unpadded convolutions (filters, size, stride) leave a pixel."""
    pixels = 1
    for _, size, stride in reversed(convolutions):
        pixels = (pixels - 1) * stride + size
    return pixels


class _Layer(OneOf):
    """A shipped layer, or `module:Class`."""

    def check(self, name: str, value: Any) -> None:
        if not re.fullmatch(r"[\w.]+:\w+", value):
            super().check(name, value)


@dataclasses.dataclass(frozen=True)
class TrunkConfig(Settings):
    """Torso, recurrent core and frame stack: everything below an agent's heads."""

    torso: Annotated[str, _Layer("auto", "shallow", "deep", "mlp", "module:Class")] = "auto"
    """The network for images (uint8 [H, W, C]) and bit planes (uint16 [H, W]). `shallow`: a few convolutions; `deep`:
    IMPALA's ResNet; `mlp`: dense layers, for small boards; `auto`: shallow, or mlp for images too small for it;
    `module:Class`: a Keras layer of your own (`networks.own_layers.Torso`). All other observations go through dense
    layers, words (uint16 [W]) through an LSTM."""
    hidden: Annotated[int, Within(0, 65_536)] = 0
    """Units of the dense layer behind the convolutions, and of the dense layers; 0: 512 (shallow) or 256."""
    mlp_layers: Annotated[int, Within(0, 64)] = 1
    """Dense layers where there are no convolutions; 0: the numbers themselves are the features."""
    convolutions: tuple = NATURE_DQN
    """Of the shallow torso: filters, size and stride of each, without padding; by default those of Nature DQN."""
    channels: tuple = (16, 32, 32)
    """Output channels of each stage of the ResNet."""
    residual_blocks: Annotated[int, Within(1, 64)] = 2
    """Residual blocks in each stage of the ResNet."""
    core: Annotated[str, _Layer("none", "lstm", "module:Class")] = "none"
    """The recurrent network behind the torso: `none`, `lstm`, or `module:Class`, a Keras layer of your own
    (`networks.own_layers.Core`)."""
    core_units: Annotated[int, Within(1, 8_192)] = 256
    """Units of the recurrent core."""
    previous_step_inputs: bool = False
    """Feed the last reward and the last action (one-hot, or scaled to [-1, 1]) to the network behind the torso."""
    clip_reward_input: bool = False
    """Clip that reward to [-1, 1]."""
    frame_stack: Annotated[int, Within(1, 64)] = 4
    """Images that the torso sees, stacked on the learner's device; 1: the current one alone."""
    kernel_initializer: Initializer = "glorot_uniform"
    """Keras initializer of the convolutions and of the layer behind them; `he_normal` preserves the scale of
    activations through ReLUs, and learns faster in the shallow network; `orthogonal` (gain sqrt(2)) is PPO's."""
    layer_norm: LayerNorm = "none"
    """Layer normalisation (arXiv:1607.06450) in the torsos. `features`: in front of their last ReLU, which bounds what
    the heads see, so that no step of the optimizer throws policy and value away; `all`: in front of every ReLU and
    behind the core, as in PQN (arXiv:2407.04811)."""
    observation_norm: bool = False
    """Standardise observations by running statistics of each number or pixel, clipped to 10 deviations, as in OpenAI's
    PPO (arXiv:1707.06347): a ball on a still background then stands out. Bit planes and words are left alone."""
    dtype: Annotated[str, OneOf(*DTYPES)] = "float32"
    """`float32` or `mixed_bfloat16` (computes in bfloat16, keeps float32 weights)."""

    def __post_init__(self):
        super().__post_init__()
        if not self.channels or not all(type(n) is int and n >= 1 for n in self.channels):
            raise ValueError(f"{type(self).__name__}.channels must be positive integers, got {self.channels!r}")
        layers = self.convolutions
        if not layers or not all(
            isinstance(layer, tuple) and len(layer) == 3 and all(type(n) is int and n >= 1 for n in layer)
            for layer in layers
        ):
            raise ValueError(
                f"{type(self).__name__}.convolutions must be tuples (filters, size, stride) of positive integers, got "
                f"{layers!r}"
            )
