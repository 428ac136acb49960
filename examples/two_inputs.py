"""A network of two inputs: a vector says how much each feature of a picture counts (FiLM, arXiv:1709.07871)."""

import keras


class Film(keras.layers.Layer):
    """Joins the features of the observations `picture` and `vector`, both [T, B, F], to [T, B, units]."""

    def __init__(self, units: int, kernel_initializer: str, dtype: str, name: str):
        super().__init__(dtype=dtype, name=name)
        shared = {"kernel_initializer": kernel_initializer, "dtype": dtype}
        self.picture = keras.layers.Dense(units, name="picture", **shared)
        self.scale = keras.layers.Dense(units, name="scale", **shared)
        self.shift = keras.layers.Dense(units, name="shift", **shared)

    def call(self, features):
        vector = features["vector"]
        joined = self.picture(features["picture"]) * (1 + self.scale(vector)) + self.shift(vector)
        return keras.ops.relu(joined)
