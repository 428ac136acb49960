"""The original's recorded inputs and outputs, and its weights, frames and gradients in the layouts here."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.networks.recurrent import LSTMState

FOLDER = pathlib.Path(__file__).resolve().parent


def cases(file: str, kind: str = "") -> list[dict[str, Any]]:
    """The arrays of a file by name, for each case whose name begins with `kind`."""
    return [*named_cases(file, kind).values()]


def named_cases(file: str, kind: str) -> dict[str, dict[str, Any]]:
    """The same, by the names of the cases."""
    found: dict[str, dict[str, Any]] = {}
    with np.load(FOLDER / file) as arrays:
        for path in arrays:
            case, _, name = path.rpartition("/")
            if case.startswith(kind):
                found.setdefault(case, {})[name] = arrays[path]
    assert found, (file, kind)
    return found


def older_frames(packed: np.ndarray, height: int, width: int) -> np.ndarray:
    """The three frames that the original keeps in 24 bits, uint8 [B, 3, H, W, 1], oldest first."""
    return np.stack([packed >> bits & 255 for bits in (0, 8, 16)], axis=1).reshape(-1, 3, height, width, 1)


def weight(shape: tuple[int, ...], number: int) -> np.ndarray:
    """Variable `number` of a network in the original's layout."""
    index = np.arange(np.prod(shape))
    values = np.sin(0.37 * index + 1.3 * number) / np.sqrt(np.prod(shape[:-1]) if len(shape) > 1 else 1)
    return values.reshape(shape).astype(np.float32)


def lstm_state(units: int, scale: float, number: int) -> LSTMState:
    """The recurrent state of two environments."""
    waves = (scale * np.sin(0.37 * np.arange(2 * units) + 1.3 * (number + part)) for part in (0, 1))
    return LSTMState(*(tf.constant(wave.reshape(2, units), tf.float32) for wave in waves))


def frames(*shape: int) -> np.ndarray:
    """uint8 of `shape`."""
    index = np.arange(np.prod(shape), dtype=np.uint64)
    return (2654435761 * index % 2**32 >> 24).astype(np.uint8).reshape(shape)


def planes() -> np.ndarray:
    """Football's planes, uint8 [6, 2, 72, 96, 16] of 0 and 255."""
    return 255 * (frames(6, 2, 72, 96, 16) < 26).astype(np.uint8)


def pack_planes(unpacked: np.ndarray) -> np.ndarray:
    """Planes [..., 16] as bits of uint16 [...], the first plane in the lowest bit."""
    return np.packbits(unpacked > 0, axis=-1, bitorder="little").view("<u2")[..., 0]


def lowest_bit_first(packed: np.ndarray) -> np.ndarray:
    """Packed planes, uint16 [...], from the original's [..., 1], in which each byte begins with the highest bit."""
    bits = np.unpackbits(packed.astype("<u2").view(np.uint8), axis=-1, bitorder="big")
    return pack_planes(bits)


def newest_last(x: np.ndarray, axis: int) -> np.ndarray:
    """Reverses an axis of four stacked frames, which has the newest frame first in the original."""
    assert x.shape[axis] == 4
    return np.flip(x, axis)


def swap_gates(x: np.ndarray) -> np.ndarray:
    """Turns gates i, f, c, o of an LSTM into ours i, f, o, c, or back: [..., 4 units]."""
    first, second, third, fourth = np.split(x, 4, axis=-1)
    return np.concatenate([first, second, fourth, third], axis=-1)


class Layout:
    """The original's variables, matched to those of a network here."""

    def __init__(self, weights: np.ndarray):
        """`weights` has lines `name (shape)`."""
        parts = [str(line).partition(" ") for line in weights]
        self.names = [name for name, _, _ in parts]
        self.shapes = [tuple(int(size) for size in shape.strip("(),").split(",")) for _, _, shape in parts]

    def ordered(self, variables: list[Any]) -> list[Any]:
        """The variables in the original's order, found by their paths."""
        by_path = {_plain(variable.path): variable for variable in variables}
        assert len(by_path) == len(variables) == len(self.names)
        return [by_path[name] for name in self.names]

    def assign(self, variables: list[Any], offset: int = 0) -> None:
        for number, (variable, shape) in enumerate(zip(self.ordered(variables), self.shapes, strict=True)):
            variable.assign(self.convert(number, weight(shape, number + offset)))

    def convert(self, number: int, x: np.ndarray) -> np.ndarray:
        """A weight or gradient of variable `number` in our layout from the original's, or back."""
        name = self.names[number]
        if name.startswith("lstm"):
            return swap_gates(x)
        return newest_last(x, axis=2) if name == "conv0/kernel" else x

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor, variables: list[Any]) -> list[np.ndarray]:
        """The gradients in the original's order and layout."""
        found = tape.gradient(loss, [variable.value for variable in self.ordered(variables)])
        return [self.convert(number, tf.convert_to_tensor(own).numpy()) for number, own in enumerate(found)]


def _plain(path: str) -> str:
    """The original's name of a variable with this path, such as stage0/res1/conv0/kernel."""
    replaced = {"recurrent_kernel": "recurrent", "core": "lstm", "residual_": "res", "stage_": "stage", "conv_": "conv"}
    for ours, theirs in replaced.items():
        path = path.replace(ours, theirs)
    parts = path.split("/")
    start = next((n for n, part in enumerate(parts) if part.startswith("stage")), len(parts) - 2)
    return "/".join(parts[start:])
