"""Torsos: networks that map the observation of a single step to a vector of features.

Shapes: N observations (all steps of all sequences); images of H x W pixels and C channels, including those of a frame
stack. Images are uint8, or floats such as standardised frames or boards times 255: the torso divides either by 255.
Weights are float32; computation and features have the compute dtype of `TrunkConfig.dtype`.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seed_rl.networks.config import TrunkConfig
from seed_rl.networks.normalisation import before_relu, relu
from seed_rl.networks.recurrent import ResetLSTM


class Chain(keras.layers.Layer):
    """Casts its input to the compute dtype and applies `layers` in order.

    Unlike `keras.Sequential` it is built as soon as its input shape is known. The layers need distinct names, which
    become part of the paths of their variables.
    """

    def __init__(self, layers: Sequence[Any], dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        self.chain = list(layers)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Build every layer for the output shape of the previous one, the first for `input_shape`."""
        for layer in self.chain:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x: Any) -> Any:
        return through(self.chain, tf.cast(x, self.compute_dtype))

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Sequence[int | None]:
        for layer in self.chain:
            input_shape = layer.compute_output_shape(input_shape)
        return input_shape


def through(layers: Sequence[Any], x: Any) -> Any:
    """Apply layers in order."""
    for layer in layers:
        x = layer(x)
    return x


def mlp_torso(config: TrunkConfig, scale: float, name: str = "mlp_torso") -> Chain:
    """Dense layers with a ReLU after each, [N, ...] to [N, hidden]; `scale` multiplies the inputs, 1/255 for pixels."""
    layers: list[Any] = [
        keras.layers.Flatten("channels_last", name="flatten", dtype=config.dtype),
        *([] if scale == 1.0 else [keras.layers.Rescaling(scale, name="scale", dtype=config.dtype)]),
    ]
    for index in range(config.mlp_layers):
        layers += dense(config, 256, f"dense_{index}", is_last=index == config.mlp_layers - 1)
    return Chain(layers, config.dtype, name)


def shallow_torso(config: TrunkConfig, name: str = "shallow_torso", block: int = 1) -> Chain:
    """Unpadded convolutions and a dense layer with a ReLU after each, [N, H, W, C] to [N, hidden].

    With a `block` above 1, the stride of the first convolution, frames come in blocks; see `FrameConv`.
    """
    layers: list[Any] = []
    for index, (filters, size, stride) in enumerate(config.convolutions):
        first = functools.partial(FrameConv, block=block, depth=config.frame_stack)
        layer = keras.layers.Conv2D if index else first
        layers.append(_conv(config, filters, size, f"conv_{index}", layer, strides=stride))
        layers += relu(config.layer_norm == "all", config.dtype, f"conv_{index}")
    layers.append(keras.layers.Flatten("channels_last", name="flatten", dtype=config.dtype))
    return Chain([*layers, *dense(config, 512, "dense", is_last=True)], config.dtype, name)


def deep_torso(config: TrunkConfig, name: str = "deep_torso", spectral: bool = False) -> Chain:
    """The residual network of IMPALA (arXiv:1802.01561, figure 3, right), [N, H, W, C] to [N, hidden].

    There is one stage per entry of `channels`, which halves height and width (rounding up), then ReLU, a dense layer
    and ReLU. If `spectral`, the residual blocks have spectral normalisation, and the last stage is pooled to 6 x 6
    pixels, as in Beyond The Rainbow (arXiv:2411.03820).
    """
    layers: list[Any] = [
        _stage(config, filters, FrameConv if index == 0 else keras.layers.Conv2D, spectral, f"stage_{index}")
        for index, filters in enumerate(config.channels)
    ]
    layers += relu(config.layer_norm == "all", config.dtype, "stages")
    layers += [AdaptiveMaxPool(6, dtype=config.dtype, name="pool")] if spectral else []
    layers.append(keras.layers.Flatten("channels_last", name="flatten", dtype=config.dtype))
    return Chain([*layers, *dense(config, 256, "dense", is_last=True)], config.dtype, name)


class WordTorso(keras.layers.Layer):
    """An LSTM over embedded words, [N, W] to [N, 64]: the language part of IMPALA's network for DMLab-30.

    Words are ids from 0 to 65,535, where 0 means no word. Ids above 10,000 share embeddings with smaller ones.
    """

    VOCABULARY = 10_000

    def __init__(self, dtype: str = "float32", name: str = "word_torso"):
        super().__init__(dtype=dtype, name=name)
        self._embedding = keras.layers.Embedding(self.VOCABULARY + 1, 20, dtype=dtype, name="embedding")
        self._lstm = ResetLSTM(64, dtype=dtype, name="lstm")

    def build(self, input_shape: Sequence[int | None]) -> None:
        self._embedding.build(input_shape)
        self._lstm.build((input_shape[1], input_shape[0], 20))

    def call(self, words: Any) -> Any:
        """Map `words`, integers [N, W], to the LSTM's output after the last word, [N, 64]; zeros without words."""
        words = tf.cast(words, tf.int32)
        numbers = tf.where(words > 0, 1 + (words - 1) % self.VOCABULARY, 0)
        steps = tf.transpose(self._embedding(numbers), [1, 0, 2])
        outputs, _ = self._lstm(steps, tf.zeros(steps.shape[:2], tf.bool), self._lstm.initial_state(words.shape[0]))
        outputs = tf.concat([tf.zeros_like(outputs[:1]), outputs], axis=0)
        length = tf.reduce_sum(tf.cast(words > 0, tf.int32), axis=1)
        chosen = tf.one_hot(length, words.shape[1] + 1, axis=0, dtype=outputs.dtype)  # [W + 1, N]
        return tf.reduce_sum(outputs * chosen[..., tf.newaxis], axis=0)


class FrameConv(keras.layers.Conv2D):
    """A convolution of frames 0..255 as if they had been divided by 255.

    It divides the kernel instead: the result is the same, the kernel is far smaller than a batch of frames, and
    bfloat16 represents 0..255 exactly, but not multiples of 1/255.

    With a `block` of s, its stride, it takes stacks of `depth` frames in blocks [N, H / s, W / s, C s s], in the order
    of `frame_stack.stack_frames`. The sums are the same, and so is the kernel that it keeps, [size, size, C, filters].
    """

    def __init__(self, *arguments: Any, block: int = 1, depth: int = 1, **options: Any):
        super().__init__(*arguments, **options)
        self._block, self._depth = block, depth

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the weights for frames [N, H, W, C]."""
        super().build(self._frame_shape(input_shape))
        if self._block > 1:
            self.input_spec = None

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Sequence[int | None]:
        return super().compute_output_shape(self._frame_shape(input_shape))

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        kernel = kernel * (1.0 / 255.0)
        if self._block == 1:
            return super().convolution_op(inputs, kernel)
        # A product with a permutation: exact, and on a CPU several times faster than a transposition of small pieces.
        size, filters = kernel.shape[0] // self._block, kernel.shape[3]
        rows = np.arange(math.prod(kernel.shape[:3]))
        rows = rows.reshape(size, self._block, size, self._block, self._depth, kernel.shape[2] // self._depth)
        order = tf.one_hot(rows.transpose(0, 2, 4, 1, 3, 5).ravel(), rows.size, dtype=kernel.dtype)
        kernel = tf.reshape(order @ tf.reshape(kernel, [rows.size, filters]), [size, size, -1, filters])
        return tf.nn.conv2d(inputs, kernel, strides=1, padding="VALID")

    def _frame_shape(self, shape: Sequence[int | None]) -> Sequence[int | None]:
        """The shape of the frames that come in blocks of a shape."""
        batch, height, width, channels = shape
        if self._block == 1 or height is None or width is None or channels is None:
            return shape
        return batch, height * self._block, width * self._block, channels // self._block**2


class SpectralConv(keras.layers.Conv2D):
    """A convolution with spectral normalisation (arXiv:1802.05957): its kernel, divided by its largest singular value.

    The kernel is a matrix [size size C, filters] there. The paper takes one step of the power iteration per update and
    keeps the vector; 32 steps from the start, here, depend on nothing but the kernel.
    """

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        matrix = tf.reshape(tf.cast(kernel, tf.float32), [-1, kernel.shape[-1]])
        return super().convolution_op(inputs, kernel / tf.cast(largest_singular_value(matrix), kernel.dtype))


def largest_singular_value(matrix: Any) -> Any:
    """Return the largest singular value of a float32 matrix [m, n], differentiable, by 32 power iterations."""
    gram = tf.matmul(matrix, matrix, transpose_a=True)
    power = tf.stop_gradient(gram)
    for _ in range(5):  # gram^32, scaled so that it neither overflows nor vanishes
        power /= tf.linalg.trace(power)
        power = power @ power
    column = tf.argmax(tf.linalg.diag_part(power))  # the one with the largest share of the first singular vector
    vector = tf.math.l2_normalize(tf.gather(power, [column], axis=1), axis=0)
    return tf.sqrt(tf.reduce_sum(vector * (gram @ vector)))


class AdaptiveMaxPool(keras.layers.Layer):
    """Max-pooling of frames of any size to `size` x `size` pixels, or to their own if they have fewer.

    The i-th of n windows takes the rows, or columns, from floor(i H / n) to below ceil((i + 1) H / n).
    """

    def __init__(self, size: int, dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        self._size = size

    def call(self, x: Any) -> Any:
        """Pool [N, H, W, C] to [N, size, size, C]."""
        for axis in (1, 2):
            length, count = x.shape[axis], self.compute_output_shape(x.shape)[axis]
            windows = [(index * length // count, -(-(index + 1) * length // count)) for index in range(count)]
            pieces = [x[:, start:stop] if axis == 1 else x[:, :, start:stop] for start, stop in windows]
            x = tf.stack([tf.reduce_max(piece, axis) for piece in pieces], axis)
        return x

    def compute_output_shape(self, input_shape: Sequence[Any]) -> Sequence[Any]:
        batch, height, width, channels = input_shape
        return batch, min(height, self._size), min(width, self._size), channels


class _ResidualBlock(Chain):
    """x + conv(relu(conv(relu(x)))), where both convolutions are 3x3 and padded."""

    def call(self, x: Any) -> Any:
        return x + super().call(x)


def _stage(config: TrunkConfig, filters: int, first: type[Any], spectral: bool, name: str) -> Chain:
    """A padded 3x3 convolution, a padded 3x3 max-pooling with stride 2, and residual blocks."""
    norm, dtype = config.layer_norm == "all", config.dtype
    residual = SpectralConv if spectral else keras.layers.Conv2D
    layers: list[Any] = [
        _conv(config, filters, 3, "conv", first, padding="same"),
        keras.layers.MaxPooling2D(3, strides=2, padding="same", data_format="channels_last", name="pool", dtype=dtype),
    ]
    for index in range(config.residual_blocks):
        block = [
            *relu(norm, dtype, "input"),
            _conv(config, filters, 3, "conv_0", residual, padding="same"),
            *relu(norm, dtype, "conv_0"),
            _conv(config, filters, 3, "conv_1", residual, padding="same"),
        ]
        layers.append(_ResidualBlock(block, dtype, f"residual_{index}"))
    return Chain(layers, dtype, name)


def _conv(
    config: TrunkConfig, filters: int, size: int, name: str, layer: Any = keras.layers.Conv2D, **options: Any
) -> Any:
    options |= {"kernel_initializer": before_relu(config.kernel_initializer), "dtype": config.dtype}
    return layer(filters, size, data_format="channels_last", name=name, **options)


def dense(config: TrunkConfig, default_units: int, name: str, is_last: bool) -> list[Any]:
    """A dense layer and its ReLU, the last one of a torso or another."""
    initializer = before_relu(config.kernel_initializer)
    units = config.hidden or default_units
    layer = keras.layers.Dense(units, kernel_initializer=initializer, dtype=config.dtype, name=name)
    norm = config.layer_norm == "all" or (is_last and config.layer_norm == "features")
    return [layer, *relu(norm, config.dtype, name)]
