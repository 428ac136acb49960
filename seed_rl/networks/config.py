"""Settings of the trunk, the network below an agent's heads. This module does not import TensorFlow."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self, TypeAlias

from seed_rl.own_classes import OneOfOrOwn
from seed_rl.settings import Count, OneOf, Settings, Within
from seed_rl.specs import LEGAL_ACTIONS, CannotAct, EnvSpec

DTYPES = ("auto", "float32", "mixed_bfloat16")
Initializer: TypeAlias = Annotated[str, OneOf("glorot_uniform", "he_normal", "lecun_normal", "orthogonal")]
LayerNorm: TypeAlias = Annotated[str, OneOf("none", "features", "all")]

NATURE_DQN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""The convolutions of Mnih et al. (Nature, 2015): filters, kernel size and stride."""


def smallest_frame(convolutions: Sequence[tuple[int, int, int]]) -> int:
    """The smallest height and width from which unpadded convolutions (filters, size, stride) produce a pixel."""
    pixels = 1
    for _, size, stride in reversed(convolutions):
        pixels = (pixels - 1) * stride + size
    return pixels


@dataclasses.dataclass(frozen=True)
class TrunkConfig(Settings):
    """Frame stacking, torso and recurrent core: everything below an agent's heads."""

    has_critic: ClassVar[bool] = False
    """Whether an agent with these settings learns a value that acting doesn't need, and so may have `critic_keys`."""

    torso: Annotated[str, OneOfOrOwn("auto", "shallow", "deep", "spectral", "mlp")] = "auto"
    """The network for images (uint8 [H, W, C]) and bit planes (uint16 [H, W]). `shallow`: a few convolutions; `deep`:
    IMPALA's ResNet; `spectral`: that one with spectral normalisation, pooled to 6 x 6 (arXiv:2411.03820); `mlp`: dense
    layers, for small boards; `auto`: `shallow`, or `mlp` if the images are too small for it; `module:Class`: a custom
    Keras layer. Other numbers [H, W, C], such as boards, go through the one that is named here, by default dense
    layers; words (uint16 [W]) through an LSTM, all other observations through dense layers."""
    hidden: Annotated[int, Within(0, 65_536)] = 0
    """Units of each dense layer, including the one after the convolutions; 0: 512 (shallow) or 256."""
    mlp_layers: Annotated[int, Within(0, 64)] = 1
    """Number of dense layers for tensors without convolutions; 0: the observations themselves are the features."""
    convolutions: tuple[tuple[Count, Count, Count], ...] = NATURE_DQN
    """Unpadded convolutions of the shallow torso: filters, kernel size and stride of each; default: Nature DQN."""
    channels: tuple[Count, ...] = (16, 32, 32)
    """Output channels of each stage of the ResNet."""
    residual_blocks: Annotated[int, Within(1, 64)] = 2
    """Residual blocks in each stage of the ResNet."""
    fusion: Annotated[str, OneOfOrOwn("concat")] = "concat"
    """How the features of several observation tensors become one vector: `concat`, one after another in the order of
    their names, or `module:Class`, a custom Keras layer."""
    core: Annotated[str, OneOfOrOwn("none", "lstm", "gru")] = "none"
    """The recurrent network after the torso: `none`, `lstm`, `gru`, or `module:Class`, a custom Keras layer."""
    core_units: Annotated[int, Within(1, 8_192)] = 256
    """Units of the recurrent core."""
    previous_step_inputs: bool = False
    """Append the previous reward and action (one-hot, or scaled to [-1, 1]) to the torso's features."""
    clip_reward_input: bool = False
    """Clip that reward to [-1, 1]."""
    frame_stack: Annotated[int, Within(1, 64)] = 4
    """Number of images that the torso sees, stacked on the learner's device; 1: only the current one."""
    kernel_initializer: Initializer = "glorot_uniform"
    """Keras initializer of the convolutions and the dense layers; `he_normal` preserves the scale of activations
    through ReLUs, and learns faster in the shallow network; `orthogonal` (gain sqrt(2), in R2D2's heads 1) is PPO's."""
    layer_norm: LayerNorm = "none"
    """Layer normalisation (arXiv:1607.06450) in the torsos. `features`: before their last ReLU, which bounds the inputs
    of the heads, so that no single optimizer step can ruin policy and value; `all`: before every ReLU and after the
    core, as in PQN (arXiv:2407.04811)."""
    observation_norm: bool = False
    """Standardise each number or pixel of the observations by running statistics, clipped to 10 deviations, as in
    OpenAI's PPO (arXiv:1707.06347): a ball on a static background then stands out. Not for bit planes and words."""
    critic_keys: tuple[str, ...] = ()
    """Names of the observations that only the critic reads (the value in V-trace and PPO, the critics in SAC), such as
    `('state',)`: what a simulator knows and the policy must do without. Only training needs them. Frames among them
    aren't stacked."""
    dtype: Annotated[str, OneOf(*DTYPES)] = "float32"
    """`float32`, `mixed_bfloat16` (bfloat16 computation, float32 weights), or `auto`: the faster one on the device that
    trains, or that acts with the policy. A run may continue with another one."""

    def __post_init__(self):
        super().__post_init__()
        for name in ("channels", "convolutions"):
            if not getattr(self, name):
                raise ValueError(f"{type(self).__name__}.{name} must not be empty")
        if self.critic_keys and not self.has_critic:
            name = f"{type(self).__name__}.critic_keys"
            raise ValueError(f"{name} must be (), got {self.critic_keys}: only VTrace, PPO and SAC have a critic")

    def policy_spec(self, env_spec: EnvSpec) -> EnvSpec:
        """The spec of what the policy reads: without `critic_keys`, which must be there; raises CannotAct."""
        if not self.critic_keys:
            return env_spec
        tensors = dict(env_spec.observation_tensors())
        left = {name: spec for name, spec in tensors.items() if name not in self.critic_keys}
        if len(left) + len(self.critic_keys) > len(tensors) or not set(left) - {LEGAL_ACTIONS}:
            name = f"{type(self).__name__}.critic_keys"
            raise CannotAct(f"{name} must name observations, but not all of them, got {self.critic_keys} of {env_spec}")
        return dataclasses.replace(env_spec, observation=left)

    def for_device(self) -> Self:
        """Return these settings with `dtype` chosen for the device if it is `auto`. Imports TensorFlow."""
        from seed_rl.system.devices import native_dtype

        return dataclasses.replace(self, dtype=native_dtype()[0]) if self.dtype == "auto" else self

    @property
    def loses_by_bfloat16(self) -> bool:
        """Whether these settings ask for bfloat16 where float32 is faster. Imports TensorFlow."""
        from seed_rl.system.devices import native_dtype

        return self.dtype == "mixed_bfloat16" and native_dtype()[0] == "float32"
