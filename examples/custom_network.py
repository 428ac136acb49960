"""A custom network below the heads of a shipped agent.

    python examples/custom_network.py runs/catch_custom

The configuration names the torso as `module:Class`, so that a resumed run, `seed_rl eval` and other commands find it
again: the module must be importable, as it is here because Python searches the directory of the script that it runs.
"""

import dataclasses
import sys

import keras

from seed_rl.api import Run, load_experiment


class BoardTorso(keras.layers.Layer):
    """Frames uint8 [N, H, W, C] to features [N, units]: a 3x3 convolution that keeps the board's size, then attention.

    Each cell is a token.
    """

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


def main(logdir: str = "runs/catch_custom", total_frames: int = 300_000) -> float:
    experiment = load_experiment(["catch/vtrace"])
    agent = dataclasses.replace(experiment.agent, torso="custom_network:BoardTorso")
    experiment = dataclasses.replace(experiment, agent=agent, total_frames=total_frames)
    last = {}
    with Run(experiment, logdir) as run:
        for last in run.train():
            print(f"{last['env_frames']:8.0f} frames  return {last.get('episode_return', float('nan')):6.2f}")
    return last["episode_return"]


if __name__ == "__main__":
    main(*sys.argv[1:2])
