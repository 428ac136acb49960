"""The network below the agent's heads, named by `VTrace.torso`; the shipped ones need no such file."""

import keras


class BoardTorso(keras.layers.Layer):
    """Boards uint8 [N, H, W, C] to features [N, units]: a 3x3 convolution, then attention between the cells."""

    def __init__(self, units: int, kernel_initializer: str, dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        shared = {"kernel_initializer": kernel_initializer, "dtype": dtype}
        self.embed = keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="embed", **shared)
        self.attend = keras.layers.MultiHeadAttention(2, 8, name="attend", **shared)
        self.dense = keras.layers.Dense(units, activation="relu", name="dense", **shared)

    def call(self, frames):
        cells = self.embed(keras.ops.cast(frames, self.compute_dtype) / 255)
        _, height, width, channels = cells.shape
        tokens = keras.ops.reshape(cells, [-1, height * width, channels])
        tokens = tokens + self.attend(tokens, tokens)
        return self.dense(keras.ops.reshape(tokens, [-1, height * width * channels]))
