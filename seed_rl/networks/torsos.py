"""Torsos: from the observation of one step to a vector of features.

Shapes: N observations (all steps of all sequences together); images of H x W pixels and C channels, those of a frame
stack included. Images are uint8, or floats such as standardised frames times 255: the torso divides either by 255.
Weights are float32; `dtype` is a Keras policy: computation and features are float32 for `float32` and bfloat16 for
`mixed_bfloat16`. `kernel_initializer` is the name of the Keras initializer of every kernel. There is layer
normalisation in front of every ReLU with `layer_norm` "all", in front of the last with "features".
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.config import NATURE_DQN, smallest_frame
from seed_rl.networks.normalisation import before_relu, relu
from seed_rl.networks.recurrent import ResetLSTM
from seed_rl.rl import checks

_FORMAT = "channels_last"


class Chain(keras.layers.Layer):
    """Applies `layers` in order.

    Unlike `keras.Sequential` it is built as soon as its input shape is known, and a subclass may check that shape or
    extend `call`. Every layer needs a name of its own: the paths of the variables contain it.
    """

    def __init__(self, layers: Sequence[Any], dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        self.chain = list(layers)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Builds each layer for the output of the one before; the first for `input_shape`."""
        for layer in self.chain:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x: Any) -> Any:
        """The output of the last layer."""
        for layer in self.chain:
            x = layer(x)
        return x

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Sequence[int | None]:
        """The shape of the last layer's output."""
        for layer in self.chain:
            input_shape = layer.compute_output_shape(input_shape)
        return input_shape


class MLPTorso(Chain):
    """Flattens and applies dense layers with ReLU after each, [N, ...] to [N, hidden]."""

    def __init__(
        self,
        hidden: int = 256,
        num_layers: int = 1,
        scale: float = 1.0,
        kernel_initializer: str = "glorot_uniform",
        layer_norm: str = "none",
        dtype: str = "float32",
        name: str = "mlp_torso",
    ):
        """
        Args:
          hidden: units of each layer.
          num_layers: dense layers.
          scale: factor of the inputs; 1/255 for pixels.
          kernel_initializer, layer_norm, dtype, name: see the top of this file.
        """
        shared = {"kernel_initializer": before_relu(kernel_initializer), "dtype": dtype}
        layers = [keras.layers.Flatten(name="flatten", dtype=dtype)]
        for index in range(num_layers):
            layer = keras.layers.Dense(hidden, name=f"dense_{index}", **shared)
            last = index == num_layers - 1
            layers += [layer, *relu(layer_norm == "all" or (last and layer_norm == "features"), dtype, layer.name)]
        super().__init__(layers, dtype, name)
        self._scale = scale

    def call(self, x: Any) -> Any:
        """The features [N, hidden] of `x` [N, ...] of any dtype."""
        return super().call(keras.ops.cast(x, self.compute_dtype) * self._scale)


class WordTorso(keras.layers.Layer):
    """An LSTM over embedded words, [N, W] to [N, 64]: the language part of IMPALA's network for DMLab-30.

    A word is a number from 0 to 65,535, of which 0 is no word. Numbers above `vocabulary` share embeddings.
    """

    def __init__(self, vocabulary: int = 10_000, dtype: str = "float32", name: str = "word_torso"):
        super().__init__(dtype=dtype, name=name)
        self._vocabulary = vocabulary
        self._embedding = keras.layers.Embedding(vocabulary + 1, 20, dtype=dtype, name="embedding")
        self._lstm = ResetLSTM(64, dtype=dtype, name="lstm")

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for words [N, W]."""
        self._embedding.build(input_shape)
        self._lstm.build((input_shape[1], input_shape[0], 20))

    def call(self, words: Any) -> Any:
        """The features [N, 64] of `words`, integers [N, W]: the output after the last word, zeros without any."""
        words = tf.cast(words, tf.int32)
        numbers = tf.where(words > 0, 1 + (words - 1) % self._vocabulary, 0)
        steps = tf.transpose(self._embedding(numbers), [1, 0, 2])
        outputs, _ = self._lstm(steps, tf.zeros(steps.shape[:2], tf.bool), self._lstm.initial_state(words.shape[0]))
        outputs = tf.concat([tf.zeros_like(outputs[:1]), outputs], axis=0)
        length = tf.reduce_sum(tf.cast(words > 0, tf.int32), axis=1)
        chosen = tf.one_hot(length, words.shape[1] + 1, axis=0, dtype=outputs.dtype)  # [W + 1, N]
        return tf.reduce_sum(outputs * chosen[..., tf.newaxis], axis=0)


class ShallowTorso(Chain):
    """Unpadded convolutions and a dense layer, ReLU after each; by default as in Mnih et al. (Nature, 2015)."""

    def __init__(
        self,
        hidden: int = 512,
        convolutions: Sequence[tuple[int, int, int]] = NATURE_DQN,
        kernel_initializer: str = "glorot_uniform",
        layer_norm: str = "none",
        dtype: str = "float32",
        name: str = "shallow_torso",
    ):
        """
        Args:
          hidden: units of the dense layer.
          convolutions: filters, size and stride of each.
          kernel_initializer, layer_norm, dtype, name: see the top of this file.
        """
        self._smallest = smallest_frame(convolutions)
        shared = {"kernel_initializer": before_relu(kernel_initializer), "dtype": dtype}
        layers: list[Any] = []
        for index, (filters, size, stride) in enumerate(convolutions):
            conv = keras.layers.Conv2D if index else FrameConv
            layers.append(conv(filters, size, strides=stride, data_format=_FORMAT, name=f"conv_{index}", **shared))
            layers += relu(layer_norm == "all", dtype, f"conv_{index}")
        layers += [
            keras.layers.Flatten(name="flatten", dtype=dtype),
            keras.layers.Dense(hidden, name="dense", **shared),
            *relu(layer_norm != "none", dtype, "dense"),
        ]
        super().__init__(layers, dtype, name)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Raises ValueError for frames that are not [N, H, W, C] or too small for the convolutions."""
        height, width, _ = _frame_shape(input_shape)
        if min(height, width) < self._smallest:
            raise ValueError(
                f"frames of {height} x {width} are too small for ShallowTorso, whose convolutions need at least "
                f"{self._smallest} x {self._smallest}"
            )
        super().build(input_shape)

    def call(self, frames: Any) -> Any:
        """The features [N, hidden] of `frames` [N, H, W, C]."""
        checks.check_rank("frames", frames, 4)
        return super().call(keras.ops.cast(frames, self.compute_dtype))


class DeepTorso(Chain):
    """The residual network of IMPALA (arXiv:1802.01561, figure 3, right).

    One stage per entry of `channels`, with `residual_blocks` blocks, each of which halves height and width (rounding
    up), then ReLU, a dense layer and ReLU.
    """

    def __init__(
        self,
        channels: Sequence[int] = (16, 32, 32),
        hidden: int = 256,
        residual_blocks: int = 2,
        kernel_initializer: str = "glorot_uniform",
        layer_norm: str = "none",
        dtype: str = "float32",
        name: str = "deep_torso",
    ):
        shared = {"kernel_initializer": kernel_initializer, "dtype": dtype}
        layers = [
            *(
                _Stage(n, residual_blocks, on_frames=i == 0, layer_norm=layer_norm, name=f"stage_{i}", **shared)
                for i, n in enumerate(channels)
            ),
            *relu(layer_norm == "all", dtype, "stages"),
            keras.layers.Flatten(name="flatten", dtype=dtype),
            keras.layers.Dense(hidden, kernel_initializer=before_relu(kernel_initializer), name="dense", dtype=dtype),
            *relu(layer_norm != "none", dtype, "dense"),
        ]
        super().__init__(layers, dtype, name)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Raises ValueError for frames that are not [N, H, W, C]; any size will do."""
        _frame_shape(input_shape)
        super().build(input_shape)

    def call(self, frames: Any) -> Any:
        """The features [N, hidden] of `frames` [N, H, W, C]."""
        checks.check_rank("frames", frames, 4)
        return super().call(keras.ops.cast(frames, self.compute_dtype))


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
        self,
        channels: int,
        residual_blocks: int,
        on_frames: bool,
        layer_norm: str,
        kernel_initializer: str,
        dtype: str,
        name: str,
    ):
        conv = FrameConv if on_frames else keras.layers.Conv2D
        kernel = before_relu(kernel_initializer)
        layers = [
            conv(channels, 3, padding="same", kernel_initializer=kernel, data_format=_FORMAT, name="conv", dtype=dtype),
            keras.layers.MaxPooling2D(3, strides=2, padding="same", data_format=_FORMAT, name="pool", dtype=dtype),
            *(
                _ResidualBlock(channels, layer_norm, kernel_initializer, dtype, name=f"residual_{index}")
                for index in range(residual_blocks)
            ),
        ]
        super().__init__(layers, dtype, name)


class _ResidualBlock(Chain):
    """x + conv(relu(conv(relu(x)))), both convolutions 3x3 and padded."""

    def __init__(self, channels: int, layer_norm: str, kernel_initializer: str, dtype: str, name: str):
        kernel = before_relu(kernel_initializer)
        shared = {"padding": "same", "kernel_initializer": kernel, "data_format": _FORMAT, "dtype": dtype}
        layers = [
            *relu(layer_norm == "all", dtype, "input"),
            keras.layers.Conv2D(channels, 3, name="conv_0", **shared),
            *relu(layer_norm == "all", dtype, "conv_0"),
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
