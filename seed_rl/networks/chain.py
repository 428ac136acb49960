"""A layer made of layers that are applied one after the other."""

from collections.abc import Sequence
from typing import Any

import keras


class Chain(keras.layers.Layer):
    """Applies `layers` in order.

    Unlike `keras.Sequential` it is built as soon as its input shape is known, and subclasses may check that shape or
    add to what it computes. Every layer needs a name of its own: the paths of the variables are made of them.
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
