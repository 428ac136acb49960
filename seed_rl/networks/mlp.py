"""A torso for observations too small or too unlike pictures for convolutions."""

from typing import Any

import keras

from seed_rl.networks.chain import Chain


class MLPTorso(Chain):
    """Flattens and applies dense layers with ReLU after each, [N, ...] to [N, hidden]."""

    def __init__(
        self,
        hidden: int = 256,
        num_layers: int = 1,
        scale: float = 1.0,
        kernel_initializer: str = "glorot_uniform",
        dtype: str = "float32",
        name: str = "mlp_torso",
    ):
        """
        Args:
          hidden: units of each layer.
          num_layers: dense layers.
          scale: what inputs are multiplied with; 1/255 for pixels.
          kernel_initializer: name of the Keras initializer of every kernel.
          dtype: Keras policy.
          name: of the layer.
        """
        shared = {"activation": "relu", "kernel_initializer": kernel_initializer, "dtype": dtype}
        dense = [keras.layers.Dense(hidden, name=f"dense_{index}", **shared) for index in range(num_layers)]
        super().__init__([keras.layers.Flatten(name="flatten", dtype=dtype), *dense], dtype, name)
        self._scale = scale

    def call(self, x: Any) -> Any:
        """The features [N, hidden] of `x` [N, ...] of any dtype."""
        return super().call(keras.ops.cast(x, self.compute_dtype) * self._scale)
