"""What agents have below their heads: frame stacks, a torso for each observation tensor, and an optional LSTM.

Shapes: T steps, B environments, frames of H x W pixels and C channels, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.core_inputs import previous_step_features
from seed_rl.networks.frame_stack import initial_frames, stack_frames
from seed_rl.networks.mlp import MLPTorso
from seed_rl.networks.recurrent import ResetLSTM
from seed_rl.networks.torsos import DeepTorso, ShallowTorso, own_torso
from seed_rl.rl.distributions import distribution_of
from seed_rl.specs import ArraySpec, EnvSpec
from seed_rl.types import EnvOutput

# Moves bytes only, which XLA fuses also where the layers around it are not compiled: three times faster on a CPU.
_stack_frames = tf.function(stack_frames, jit_compile=True)


def is_frame(spec: ArraySpec) -> bool:
    """Whether a tensor is a picture, uint8 [H, W, C]: such are stacked over time and seen by convolutions."""
    return spec.dtype == "uint8" and len(spec.shape) == 3


def is_planes(spec: ArraySpec) -> bool:
    """Whether a tensor holds 16 binary planes as the bits of uint16 [H, W]."""
    return spec.dtype == "uint16" and len(spec.shape) == 2


class TrunkState(NamedTuple):
    """What a trunk remembers of an environment from step to step."""

    frames: Any
    """A tuple with uint8 [B, H, W, C * (stack - 1)] for each observation tensor that is stacked: the frames before the
    current one."""
    core: Any
    """`LSTMState` [B, units], or () for a feed-forward trunk."""


class Trunk(keras.layers.Layer):
    """From T steps of B environments to features [T, B, F] in the compute dtype.

    Each observation tensor goes through a torso of its own, by what it is: pictures (stacked over time) and bit planes
    through convolutions, all else flattened through dense layers. Their features stand side by side.
    """

    def __init__(
        self,
        env_spec: EnvSpec,
        *,
        torso: str,
        hidden: int,
        mlp_layers: int,
        channels: Sequence[int],
        residual_blocks: int,
        lstm_units: int,
        previous_step_inputs: bool,
        clip_reward_input: bool,
        frame_stack: int,
        kernel_initializer: str,
        dtype: str,
        name: str = "trunk",
    ):
        """
        Args:
          env_spec: of the environments.
          torso, hidden, mlp_layers, channels, residual_blocks: see `TrunkConfig`.
          lstm_units, previous_step_inputs, frame_stack, kernel_initializer, dtype: see `TrunkConfig`.
          clip_reward_input: whether the last reward is clipped to [-1, 1] before it is fed to the core.
          name: of the layer.
        """
        super().__init__(name=name, dtype=dtype, autocast=False)  # each layer casts what it needs
        self._tensors = env_spec.observation_tensors()
        self._frame_stack = frame_stack
        self._previous_step_inputs = previous_step_inputs
        self._clip_reward_input = clip_reward_input
        self._actions = distribution_of(env_spec.action)

        def build(index: int, spec: ArraySpec) -> Any:
            shared: dict[str, Any] = {
                "kernel_initializer": kernel_initializer,
                "dtype": dtype,
                "name": f"torso_{index}",
            }
            kind = torso_of(spec, torso)
            if kind == "shallow":
                return ShallowTorso(hidden or 512, **shared)
            if kind == "deep":
                return DeepTorso(channels, hidden or 256, residual_blocks, **shared)
            if kind != "mlp":
                return own_torso(kind)(units=hidden or 256, **shared)
            scale = 1 / 255 if is_frame(spec) or is_planes(spec) else 1.0
            return MLPTorso(hidden or 256, mlp_layers, scale, **shared)

        self._torsos = [build(index, spec) for index, (_, spec) in enumerate(self._tensors)]
        self._lstm = ResetLSTM(lstm_units, dtype=dtype, name="lstm") if lstm_units else None

    def initial_state(self, batch_size: int) -> TrunkState:
        """The state before the first step of an episode."""
        stacked = [spec for _, spec in self._tensors if self._is_stacked(spec)]
        frames = tuple(initial_frames(batch_size, spec.shape, self._frame_stack) for spec in stacked)
        return TrunkState(frames, self._lstm.initial_state(batch_size) if self._lstm else ())

    def build(self, *shapes: Any) -> None:
        """Nothing to do: each layer is built when `call` first reaches it, and says what is wrong with its input."""

    def call(self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState) -> tuple[tf.Tensor, TrunkState]:
        """Runs T steps of B environments.

        Args:
          prev_action: [T, B, ...].
          env_output: fields [T, B, ...]; the state is reset before each step where `done`.
          state: before step 0.

        Returns:
          The features [T, B, F] of all steps, and the state after the last one.
        """
        before, after, parts = list(state.frames), [], []
        for (name, spec), torso in zip(self._tensors, self._torsos, strict=True):
            tensor = env_output.observation[name] if name else env_output.observation
            if self._is_stacked(spec):
                tensor, frames = _stack_frames(tensor, env_output.done, before.pop(0))
                after.append(frames)
            elif is_planes(spec):
                tensor = unpack_planes(tensor)
            steps, batch = tensor.shape[0], tensor.shape[1]
            features = torso(tf.reshape(tensor, [steps * batch, *tensor.shape[2:]]))
            parts.append(tf.reshape(features, [steps, batch, features.shape[-1]]))
        features = parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
        if self._previous_step_inputs:
            reward = env_output.reward
            if self._clip_reward_input:
                reward = tf.clip_by_value(reward, -1.0, 1.0)
            features = previous_step_features(features, reward, self._actions.features(prev_action))
        core_state: Any = ()
        if self._lstm is not None:
            features, core_state = self._lstm(features, env_output.done, state.core)
        return features, TrunkState(tuple(after), core_state)

    def _is_stacked(self, spec: ArraySpec) -> bool:
        return is_frame(spec) and self._frame_stack > 1


def torso_of(spec: ArraySpec, wanted: str) -> str:
    """`shallow`, `deep`, `mlp` or `module:Class`: what a tensor goes through if the config wants `wanted`."""
    if not (is_frame(spec) or is_planes(spec)):
        return "mlp"
    if wanted != "auto":
        return wanted
    return "shallow" if min(spec.shape[:2]) >= ShallowTorso.MIN_FRAME_SIZE else "mlp"


def unpack_planes(packed: Any) -> tf.Tensor:
    """Frames uint8 [..., H, W, 16] of 0 and 255 from bits, uint16 [..., H, W]; the lowest bit comes first."""
    bits = tf.constant([1 << bit for bit in range(16)], tf.int32)
    return 255 * tf.cast(tf.cast(packed, tf.int32)[..., tf.newaxis] & bits != 0, tf.uint8)
