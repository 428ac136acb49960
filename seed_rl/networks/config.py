"""Settings of the trunk that agents put their heads on. TensorFlow is not imported here."""

from __future__ import annotations

import dataclasses
import re

from seed_rl.settings import Settings, check_at_least, check_one_of

DTYPES = ("float32", "mixed_bfloat16")
INITIALIZERS = ("glorot_uniform", "he_normal", "lecun_normal")
TORSOS = ("auto", "shallow", "deep", "mlp")
CORES = ("none", "lstm")

_CUSTOM = re.compile(r"[\w.]+:\w+")


@dataclasses.dataclass(frozen=True)
class TrunkConfig(Settings):
    """Torso, recurrent core and frame stack: everything below an agent's heads."""

    torso: str = "auto"
    """The network for images (uint8 [H, W, C]) and bit planes (uint16 [H, W]). `shallow`: three convolutions (Nature
    DQN); `deep`: the ResNet of IMPALA; `mlp`: dense layers, for small boards; `auto`: shallow, or mlp for images too
    small for it; `module:Class`: a Keras layer of your own (`networks.trunk.Torso`). All other observations go through
    dense layers."""
    hidden: int = 0
    """Units of the dense layer behind the convolutions, and of the dense layers; 0: 512 (shallow) or 256."""
    mlp_layers: int = 1
    """Dense layers where there are no convolutions."""
    channels: tuple = (16, 32, 32)
    """Output channels of each stage of the ResNet."""
    residual_blocks: int = 2
    """Residual blocks in each stage of the ResNet."""
    core: str = "none"
    """The recurrent network behind the torso: `none`, `lstm`, or `module:Class`, a Keras layer of your own
    (`networks.trunk.Core`)."""
    core_units: int = 256
    """Units of the recurrent core."""
    previous_step_inputs: bool = False
    """Feed the last reward and the last action (one-hot, or scaled to [-1, 1]) to the network behind the torso."""
    clip_reward_input: bool = False
    """Clip that reward to [-1, 1]."""
    frame_stack: int = 4
    """Images that the torso sees, stacked on the learner's device; 1: the current one alone."""
    kernel_initializer: str = "glorot_uniform"
    """Keras initializer of the convolutions and of the layer behind them; `he_normal` preserves the scale of
    activations through ReLUs, and learns faster in the shallow network."""
    dtype: str = "float32"
    """`float32` or `mixed_bfloat16` (computes in bfloat16, keeps float32 weights)."""

    def __post_init__(self):
        super().__post_init__()
        for name, shipped in (("torso", TORSOS), ("core", CORES)):
            if not _CUSTOM.fullmatch(getattr(self, name)):
                check_one_of(self, (*shipped, "module:Class"), name)
        check_one_of(self, DTYPES, "dtype")
        check_one_of(self, INITIALIZERS, "kernel_initializer")
        check_at_least(self, 1, "frame_stack", "mlp_layers", "residual_blocks", "core_units")
        check_at_least(self, 0, "hidden")
        if not self.channels or not all(type(n) is int and n >= 1 for n in self.channels):
            raise ValueError(f"{type(self).__name__}.channels must be positive integers, got {self.channels!r}")
