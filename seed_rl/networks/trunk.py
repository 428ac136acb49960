"""The network below an agent's heads: frame stacking, a torso per observation tensor, an optional recurrent core.

Shapes: T steps, B environments, images of H x W pixels and C channels, F features.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.foreign import kind_of
from seed_rl.networks.config import TrunkConfig
from seed_rl.networks.frame_stack import initial_frames, stack_frames, time_first
from seed_rl.networks.layers import (
    as_image,
    block_of,
    build_core,
    build_own,
    build_torso,
    check_features,
    check_torso,
    mistake,
)
from seed_rl.networks.normalisation import RunningMoments, normalised
from seed_rl.rl import masks
from seed_rl.rl.distributions import distribution_of
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, EnvSpec, choices_of
from seed_rl.types import EnvOutput


class TrunkState(NamedTuple):
    """The state that a trunk carries from step to step for each environment."""

    frames: Any
    """A tuple with one `FrameState` per stacked observation tensor."""
    core: Any
    """The recurrent core's state, a nest [B, ...] such as `LSTMState`; () for a feed-forward trunk."""


class Observed(NamedTuple):
    """Observations [T, B, ...] with their frames stacked."""

    tensors: Sequence[tf.Tensor]
    """The observation tensors, [T, B, ...], in the order of their names."""
    present: Sequence[Any]
    """Which frames each tensor's stacks have (`Stacks.present`); () for a tensor that is not stacked."""


class BuiltInUse(keras.layers.Layer):
    """A layer or model whose layers are built, and check their inputs, when they are first called."""

    def build(self, *shapes: Any) -> None:
        pass


class Trunk(BuiltInUse):
    """Maps T steps of B environments to features [T, B, F] in the compute dtype.

    Each observation tensor has a separate torso of the kind that `TrunkConfig.torso` describes. The features are
    concatenated, or joined by a custom layer, followed by the previous reward and action if the settings ask for them,
    and passed through the recurrent core if there is one.
    """

    def __init__(self, config: TrunkConfig, env_spec: EnvSpec, name: str = "trunk"):
        """Build the layers; raise CannotAct if the torso does not fit the observations or a custom layer is missing."""
        super().__init__(name=name, dtype=config.dtype, autocast=False)  # each layer casts its own input
        self._config = config
        self._env_spec = env_spec
        self._tensors = env_spec.network_inputs()
        self._actions = distribution_of(env_spec.action)
        check_torso(config, env_spec)
        frames = {name: spec for name, spec in self._tensors if spec.kind == "frame" and name not in config.critic_keys}
        self._stacked = frames if config.frame_stack > 1 else {}
        self._blocks = {name: block_of(spec, config) if name in self._stacked else 1 for name, spec in self._tensors}
        self._torsos = [
            build_torso(config, spec, f"torso_{n}", self._blocks[name]) for n, (name, spec) in enumerate(self._tensors)
        ]
        self._moments = {
            name: RunningMoments(spec.shape, name=f"moments_{n}", bounded=spec.kind != "frame")
            for n, (name, spec) in enumerate(self._tensors)
            if config.observation_norm and spec.kind not in ("planes", "words")
        }
        self._fusion = None if config.fusion == "concat" else build_own(config, "fusion", "fusion")
        self._core = build_core(config)
        self._core_norm: Any = None
        if config.layer_norm == "all" and self._core is not None:
            self._core_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=config.dtype, name="core_norm")

    def initial_state(self, batch_size: int) -> TrunkState:
        """The state at the start of an episode."""
        depth = self._config.frame_stack
        frames = tuple(initial_frames(batch_size, spec.shape, depth) for spec in self._stacked.values())
        return TrunkState(frames, () if self._core is None else self._core.initial_state(batch_size))

    @property
    def history(self) -> int:
        """Number of steps before an unroll whose frames belong to the state."""
        return self._config.frame_stack - 1 if self._stacked else 0

    def stored_state(self, state: TrunkState) -> TrunkState:
        """The state without frames, which are stored with the steps before it."""
        return state._replace(frames=tuple(each._replace(frames=()) for each in state.frames))

    def restored_state(self, stored: TrunkState, observations: Any) -> TrunkState:
        """The state, from its `stored_state` and the observations [h, B, ...] of the `history` steps before it."""
        stacked = [_part(observations, name) for name in self._stacked]
        frames = (each._replace(frames=time_first(own)) for each, own in zip(stored.frames, stacked, strict=True))
        return stored._replace(frames=tuple(frames))

    def observe(self, env_output: EnvOutput, state: TrunkState) -> tuple[Observed, tuple[Any, ...]]:
        """Stack frames, without any weight: return the observations, and `TrunkState.frames` after the last step."""
        before, after, tensors, present = list(state.frames), [], [], []
        for name, _ in self._tensors:
            tensor, shown = _part(env_output.observation, name), ()
            if name in self._stacked:
                (tensor, shown), frames = stack_frames(tensor, env_output.done, before.pop(0), self._blocks[name])
                after.append(frames)
            tensors.append(tensor)
            present.append(shown)
        return Observed(tensors, present), tuple(after)

    def call(
        self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState, observed: Observed | None = None
    ) -> tuple[tf.Tensor, TrunkState]:
        """Run T steps of B environments: return the features [T, B, F] of all, and the state after the last one.

        Args:
          prev_action: [T, B, ...].
          env_output: fields [T, B, ...]; the state is reset before each step where `done`.
          state: the state before step 0.
          observed: the observations, if frames are stacked already; the frames of the state then stay as they are.
        """
        after, parts = state.frames, []
        if observed is None:
            observed, after = self.observe(env_output, state)
        for (name, spec), torso, tensor, present in zip(self._tensors, self._torsos, *observed, strict=True):
            tensor = self._torso_input(name, spec, tensor, present)
            steps, batch = tensor.shape[0], tensor.shape[1]
            features = torso(tf.reshape(tensor, [steps * batch, *tensor.shape[2:]]))
            check_features(self._config, "torso", features, [steps * batch])
            parts.append(tf.reshape(features, [steps, batch, features.shape[-1]]))
        if self._fusion is not None:
            leading = parts[0].shape[:-1]
            parts = [self._fusion({name: part for (name, _), part in zip(self._tensors, parts, strict=True)})]
            check_features(self._config, "fusion", parts[0], leading)
        if self._config.previous_step_inputs:
            parts += self._previous_step(prev_action, env_output.reward, parts[0].dtype)
        features = parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
        core_state: Any = ()
        if self._core is not None:
            leading = features.shape[:-1]
            result = self._core(features, env_output.done, state.core)
            if not isinstance(result, tuple) or len(result) != 2:
                raise mistake(self._config, "core", f"it must return (features, state), got {kind_of(result)}")
            features, core_state = result
            check_features(self._config, "core", features, leading)
            features = features if self._core_norm is None else self._core_norm(features)
        return features, TrunkState(after, core_state)

    def legal_actions(self, env_output: EnvOutput) -> tf.Tensor | None:
        """The action masks in steps [T, B, ...], unpacked to bool [T, B, N]; None if all actions are always legal."""
        if not self._env_spec.has_mask:
            return None
        return masks.legal_actions(env_output.observation[LEGAL_ACTIONS], choices_of(self._env_spec.action))

    def _torso_input(self, name: str, spec: ArraySpec, tensor: tf.Tensor, present: Any) -> tf.Tensor:
        """Return a tensor as its torso takes it: standardised, unpacked, or with the scale of an image."""
        if name in self._moments:
            return self._standardise(name, spec, tensor, present)
        if spec.kind == "planes":
            return unpack_planes(tensor)
        if spec.kind == "grid" and as_image(spec, self._config):
            return 255.0 * tf.cast(tensor, tf.float32)
        return tensor

    def _standardise(self, name: str, spec: ArraySpec, tensor: tf.Tensor, present: Any) -> tf.Tensor:
        """Standardise a tensor, in the compute dtype: images to a deviation of 255, absent ones in a stack to zero."""
        block, unit = self._blocks[name], tf.constant(255.0 if as_image(spec, self._config) else 1.0)
        if not isinstance(present, tuple):
            unit *= tf.repeat(tf.cast(present, tf.float32), spec.shape[-1] * block**2, axis=-1)[:, :, None, None]
        standardise = _standardise_frames if spec.kind == "frame" else _standardise
        # Statistics are brought into shape outside: XLA would do that for each pixel of each frame.
        return standardise(tensor, *self._moments[name].statistics(tensor.shape[-1], block), unit, self.compute_dtype)

    def moments(self, env_output: EnvOutput) -> Mapping[str, tf.Tensor]:
        """The moments, for `update`, of those observations [T, B, ...] that the trunk standardises."""
        return {name: own.moments(_part(env_output.observation, name)) for name, own in self._moments.items()}

    def update(self, moments: Mapping[str, tf.Tensor], steps: float) -> None:
        """Update the running statistics of observations from the moments of a batch of `steps` agent steps."""
        for name, own in self._moments.items():
            own.update(moments[name], steps)

    def _previous_step(self, prev_action: tf.Tensor, reward: tf.Tensor, dtype: tf.DType) -> list[tf.Tensor]:
        """The previous action's reward [T, B, 1] and features [T, B, G]."""
        if self._config.clip_reward_input:
            reward = tf.clip_by_value(reward, -1.0, 1.0)
        return [tf.cast(reward, dtype)[..., tf.newaxis], tf.cast(self._actions.features(prev_action), dtype)]


class TrunkModel(BuiltInUse, keras.Model, abc.ABC):
    """A trunk with an agent's heads, which a subclass adds; a model for `agents.base.ModelAgent`."""

    def __init__(self, trunk: Trunk, name: str):
        super().__init__(name=name, autocast=False)  # each layer casts its own input
        self.trunk = trunk

    @property
    def history(self) -> int:
        """See `Trunk.history`."""
        return self.trunk.history

    def initial_state(self, batch_size: int) -> TrunkState:
        """See `Trunk.initial_state`."""
        return self.trunk.initial_state(batch_size)

    def stored_state(self, state: TrunkState) -> TrunkState:
        """See `Trunk.stored_state`."""
        return self.trunk.stored_state(state)

    def restored_state(self, stored: TrunkState, observations: Any) -> TrunkState:
        """See `Trunk.restored_state`."""
        return self.trunk.restored_state(stored, observations)

    def call(
        self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState, observed: Observed | None = None
    ) -> tuple[Any, TrunkState]:
        """Run T steps of B environments, like `Trunk.call`, but return the heads' outputs instead of features."""
        features, state = self.trunk(prev_action, env_output, state, observed)
        legal = self.trunk.legal_actions(env_output)
        return self.heads(features) if legal is None else self.heads(features, legal), state

    def update_statistics(self, moments: Any, steps: float) -> None:
        """Update the running statistics from `Trunk.moments`; a subclass may extend this to its heads' statistics."""
        self.trunk.update(moments, steps)

    @abc.abstractmethod
    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> Any:
        """Map features [T, B, F] to a nest of outputs [T, B, ...].

        `legal`, bool [T, B, N], lets `rl.masks.mask_illegal` rule out illegal actions; omitted without action masks.
        """


def _standardise(x: tf.Tensor, mean: tf.Tensor, scale: tf.Tensor, unit: tf.Tensor, dtype: str) -> tf.Tensor:
    return tf.cast(normalised(x, mean, scale) * unit, dtype)


# Compiled even where the layers around it are not: one pass over the bytes is several times faster on a CPU.
_standardise_frames = tf.function(_standardise, jit_compile=True, autograph=False)


def _part(observation: Any, name: str) -> Any:
    return observation[name] if name else observation


def unpack_planes(packed: Any) -> tf.Tensor:
    """Unpack bits, uint16 [..., H, W], to frames uint8 [..., H, W, 16] of 0 and 255, lowest bit first."""
    return 255 * tf.cast(masks.unpack_bits(packed, 16), tf.uint8)
