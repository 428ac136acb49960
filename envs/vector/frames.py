"""Frames: their layout, size and colours, as networks see them. E is the number of environments."""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

_MOST_CHANNELS = 16
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue (ITU-R BT.601)

Convert: TypeAlias = Callable[[Any], np.ndarray]


def conversion(space: spaces.Box, size: int, grayscale: bool) -> tuple[spaces.Box, Convert] | None:
    """The space of frames as networks see them, uint8 [H, W, C], and the conversion to it.

    Frames are uint8 [H, W], [C, H, W], [H, W, C] or stacks [N, H, W, C], with at most 16 channels and larger sides. The
    frames of a stack become channels.

    Frames of which a side is larger than `size`, unless that is 0, get it as height and width: each new pixel is the
    mean of the area that it covers. With `grayscale`, every three channels, red, green and blue, become one. None if
    the space has no frames, or if they stay as they are.
    """
    steps: list[Convert] = []
    for step_of in (_channels_last, functools.partial(_shrinking, size=size, grayscale=grayscale)):
        if space.dtype == np.uint8 and (step := step_of(space.shape)) is not None:
            low, high = (step(bound[np.newaxis])[0] for bound in (space.low, space.high))
            space = spaces.Box(low, high, dtype=np.uint8)
            steps.append(step)
    return (space, lambda frames: functools.reduce(lambda tensor, step: step(tensor), steps, frames)) if steps else None


def _channels_last(shape: tuple[int, ...]) -> Convert | None:
    if len(shape) == 4 and shape[0] * shape[3] <= _MOST_CHANNELS < min(shape[1:3]):
        return lambda frames: np.moveaxis(np.asarray(frames), 1, 3).reshape(-1, *shape[1:3], shape[0] * shape[3])
    if len(shape) not in (2, 3) or min(shape[-2:]) <= _MOST_CHANNELS:
        return None
    if len(shape) == 2:
        return lambda frames: np.ascontiguousarray(frames)[..., np.newaxis]
    if shape[0] <= _MOST_CHANNELS:
        return lambda frames: np.ascontiguousarray(np.asarray(frames).transpose(0, 2, 3, 1))
    return None


def _shrinking(shape: tuple[int, ...], size: int, grayscale: bool) -> Convert | None:
    if len(shape) != 3 or not shape[2] <= _MOST_CHANNELS < min(shape[:2]):
        return None
    grays, shrinks = grayscale and shape[2] % 3 == 0, 0 < size < max(shape[:2])
    sides = [(axis, _areas(shape[axis - 1], size)) for axis in (1, 2)] if shrinks else []

    def convert(frames: Any) -> np.ndarray:
        pixels = np.asarray(frames, np.float32)
        if grays:
            pixels = pixels.reshape(*pixels.shape[:-1], -1, 3) @ _LUMA
        for axis, areas in sides:
            trailing = [1] * (3 - axis)
            parts = (np.take(pixels, old, axis) * share.reshape(-1, *trailing) for old, share in areas)
            pixels = functools.reduce(operator.iadd, parts)
        return (pixels + 0.5).astype(np.uint8)

    return convert if grays or shrinks else None


def _areas(length: int, new_length: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for n = 0, 1, ..., the n-th old pixel that each new one covers along an axis, and its share (float32)."""
    edges = np.arange(new_length + 1) * (length / new_length)
    begin, end, first = edges[:-1], edges[1:], edges[:-1].astype(int)
    found = []
    for old in range(int(np.ceil(end - first).max())):
        covered = np.minimum(end, first + old + 1) - np.maximum(begin, first + old)
        share = covered.clip(0) * (new_length / length)
        found.append((np.minimum(first + old, length - 1), share.astype(np.float32)))
    return found
