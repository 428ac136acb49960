"""Convolutional torsos: from frames to a vector of features for each.

Shapes: N frames (all steps of all sequences together), H x W pixels, C channels (those of a frame stack included).
Frames are uint8, or floats of the same scale 0..255, which the torso divides by 255. Weights are float32; `dtype` is a
Keras policy: the computation and the features are float32 for `float32` and bfloat16 for `mixed_bfloat16`.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from seed_rl.networks.chain import Chain
from seed_rl.rl import checks


class ShallowTorso(Chain):
    """The network of Mnih et al. (Nature, 2015): three convolutions and a dense layer, ReLU after each.

    32 filters 8x8 with stride 4, 64 filters 4x4 with stride 2, 64 filters 3x3 with stride 1, nothing padded.
    `kernel_initializer` is the name of the Keras initializer of every kernel.
    """

    MIN_FRAME_SIZE = 36
    """The least height and width of which the three convolutions leave a pixel."""

    def __init__(
        self,
        hidden: int = 512,
        kernel_initializer: str = "glorot_uniform",
        dtype: str = "float32",
        name: str = "shallow_torso",
    ):
        shared = {"activation": "relu", "kernel_initializer": kernel_initializer, "dtype": dtype}
        layers = [
            FrameConv(32, 8, strides=4, name="conv_0", **shared),
            keras.layers.Conv2D(64, 4, strides=2, name="conv_1", **shared),
            keras.layers.Conv2D(64, 3, strides=1, name="conv_2", **shared),
            keras.layers.Flatten(name="flatten", dtype=dtype),
            keras.layers.Dense(hidden, name="dense", **shared),
        ]
        super().__init__(layers, dtype, name)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Raises ValueError for frames that are not [N, H, W, C] or smaller than `MIN_FRAME_SIZE`."""
        height, width, _ = _frame_shape(input_shape)
        if min(height, width) < self.MIN_FRAME_SIZE:
            raise ValueError(
                f"frames of {height} x {width} are too small for ShallowTorso, whose convolutions need at least "
                f"{self.MIN_FRAME_SIZE} x {self.MIN_FRAME_SIZE}"
            )
        super().build(input_shape)

    def call(self, frames: Any) -> Any:
        """The features [N, hidden] of `frames` [N, H, W, C]."""
        checks.check_rank("frames", frames, 4)
        return super().call(keras.ops.cast(frames, self.compute_dtype))


class DeepTorso(Chain):
    """The residual network of IMPALA (arXiv:1802.01561, figure 3, right).

    One stage per entry of `channels`, with `residual_blocks` blocks, each of which halves height and width (rounding
    up), then ReLU, a dense layer and ReLU. `kernel_initializer` is the name of the Keras initializer of every kernel.
    """

    def __init__(
        self,
        channels: Sequence[int] = (16, 32, 32),
        hidden: int = 256,
        residual_blocks: int = 2,
        kernel_initializer: str = "glorot_uniform",
        dtype: str = "float32",
        name: str = "deep_torso",
    ):
        shared = {"kernel_initializer": kernel_initializer, "dtype": dtype}
        layers = [
            *(
                _Stage(n, residual_blocks, on_frames=i == 0, name=f"stage_{i}", **shared)
                for i, n in enumerate(channels)
            ),
            keras.layers.Activation("relu", name="relu", dtype=dtype),
            keras.layers.Flatten(name="flatten", dtype=dtype),
            keras.layers.Dense(hidden, activation="relu", name="dense", **shared),
        ]
        super().__init__(layers, dtype, name)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Raises ValueError for frames that are not [N, H, W, C]; every size will do."""
        _frame_shape(input_shape)
        super().build(input_shape)

    def call(self, frames: Any) -> Any:
        """The features [N, hidden] of `frames` [N, H, W, C]."""
        checks.check_rank("frames", frames, 4)
        return super().call(keras.ops.cast(frames, self.compute_dtype))


def own_torso(path: str) -> Callable[..., keras.layers.Layer]:
    """A torso from another module, `module:Class`.

    It is called with `units` (features that the config asks for), `kernel_initializer`, `dtype` and `name`, and gives a
    Keras layer that takes frames uint8 [N, H, W, C] and returns features [N, F] in its compute dtype.

    Raises:
      ValueError: there is no such module, or nothing of this name in it.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the torso {path} can't be used: {error}") from error


class FrameConv(keras.layers.Conv2D):
    """A convolution of frames 0..255 as if they were divided by 255.

    It divides the kernel instead: the result is the same, the kernel is far smaller than a batch of frames, and
    bfloat16 holds 0..255 exactly but not their 255th parts.
    """

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """The convolution with the kernel divided by 255."""
        return super().convolution_op(inputs, kernel * (1.0 / 255.0))


class _Stage(Chain):
    """A 3x3 convolution, a 3x3 max-pooling with stride 2 and residual blocks, all padded."""

    def __init__(
        self, channels: int, residual_blocks: int, on_frames: bool, kernel_initializer: str, dtype: str, name: str
    ):
        shared = {"kernel_initializer": kernel_initializer, "dtype": dtype}
        conv = FrameConv if on_frames else keras.layers.Conv2D
        layers = [
            conv(channels, 3, padding="same", name="conv", **shared),
            keras.layers.MaxPooling2D(3, strides=2, padding="same", name="pool", dtype=dtype),
            *(_ResidualBlock(channels, name=f"residual_{index}", **shared) for index in range(residual_blocks)),
        ]
        super().__init__(layers, dtype, name)


class _ResidualBlock(Chain):
    """x + conv(relu(conv(relu(x)))), both convolutions 3x3 and padded."""

    def __init__(self, channels: int, kernel_initializer: str, dtype: str, name: str):
        shared = {"padding": "same", "kernel_initializer": kernel_initializer, "dtype": dtype}
        layers = [
            keras.layers.Activation("relu", name="relu", dtype=dtype),
            keras.layers.Conv2D(channels, 3, activation="relu", name="conv_0", **shared),
            keras.layers.Conv2D(channels, 3, name="conv_1", **shared),
        ]
        super().__init__(layers, dtype, name)

    def call(self, x: Any) -> Any:
        return x + super().call(x)


def _frame_shape(input_shape: Sequence[int | None]) -> tuple[int, int, int]:
    """H, W, C of [N, H, W, C]."""
    shape = tuple(input_shape)
    if len(shape) != 4 or not all(shape[1:]):
        raise ValueError(f"frames must have shape [N, H, W, C] with H, W and C known and positive, got {shape}")
    return shape[1:]  # type: ignore[return-value]
