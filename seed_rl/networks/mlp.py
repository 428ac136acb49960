"""A torso for observations too small or too unlike pictures for convolutions."""

from typing import Any

import keras

from seed_rl.networks.chain import Chain


class MLPTorso(Chain):
    """Flattens and applies one dense layer with ReLU, [N, ...] to [N, hidden]. Divides by 255, as the others do."""

    def __init__(
        self,
        hidden: int = 256,
        kernel_initializer: str = "glorot_uniform",
        dtype: str = "float32",
        name: str = "mlp_torso",
    ):
        dense = keras.layers.Dense(
            hidden, activation="relu", kernel_initializer=kernel_initializer, name="dense", dtype=dtype
        )
        layers = [keras.layers.Flatten(name="flatten", dtype=dtype), dense]
        super().__init__(layers, dtype, name)

    def call(self, frames: Any) -> Any:
        """The features [N, hidden] of `frames` [N, ...]."""
        return super().call(keras.ops.cast(frames, self.compute_dtype) / 255.0)
