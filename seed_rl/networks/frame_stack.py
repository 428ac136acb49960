"""Frame stacking, from frames that are sent and stored only once each.

Shapes: T steps, B sequences, frames of H x W pixels and C channels, stacks of D frames. A stack concatenates its frames
along the channel axis, oldest first. The state passed from call to call holds the last D - 1 frames.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.rl import checks


class FrameState(NamedTuple):
    """The frames before the current one."""

    frames: tf.Tensor
    """uint8 [B, D - 1, H, W, C], oldest first; those of an earlier episode are there, too."""
    seen: tf.Tensor
    """int32 [B]: how many of them, counted from the newest, belong to the current episode; the others are absent."""


def initial_frames(batch: int, frame_shape: Sequence[int], depth: int) -> FrameState:
    """The state before any frame, given (H, W, C) and the depth D; it has no elements if D is 1."""
    return FrameState(tf.zeros([batch, depth - 1, *frame_shape], tf.uint8), tf.zeros([batch], tf.int32))


class Stacks(NamedTuple):
    """Every frame together with the D - 1 before it."""

    frames: tf.Tensor
    """uint8 [T, B, H, W, D C], or in blocks [T, B, H / s, W / s, D s s C]: absent frames are zero."""
    present: tf.Tensor
    """bool [T, B, D]: whether a frame belongs to the episode of the newest one of its stack."""


def stack_frames(frames: Any, done: Any, state: FrameState, block: int = 1) -> tuple[Stacks, FrameState]:
    """Stack T frames; return the stacks and the new state.

    Stacking T frames at once or in several calls that pass on the state gives the same result.

    Args:
      frames: uint8 [T, B, H, W, C].
      done: bool [T, B]: whether a frame is the first of its episode, so that older frames are absent from its stack.
      state: the state before these frames, whose shape determines the depth D.
      block: s; above 1, the s x s pixels of a block become channels, which must be a multiple of four bytes per row.
    """
    frames = tf.convert_to_tensor(frames)
    checks.check_rank("frames", frames, 5)
    shape = frames.shape
    checks.check_shape("done", done, shape[:2])
    checks.check_shape("state", state.frames, [shape[1], None, *shape[2:]])
    history = state.frames.shape[1]
    newest = time_first(frames[max(0, shape[0] - history) :])
    if (older := history - shape[0]) > 0:  # rows of bytes: several times faster than parts of five axes
        kept, added = (tf.reshape(pixels, [shape[1], -1]) for pixels in (state.frames, newest))
        kept = kept[:, -older * math.prod(shape[2:]) :]
        newest = tf.reshape(tf.concat([kept, added], axis=1), state.frames.shape)
    present, seen = _presence(done, state.seen, history)
    if block == 1:
        stacks = tf.reshape(_stack(frames, state.frames, present, (0, 1)), [*shape[:4], -1])
    else:  # four pixels at a time: on CPUs this takes no longer than stacking without blocks
        pieces = [shape[2] // block, block, shape[3] // block, block * shape[4] // 4]
        pixels = (tf.reshape(each, [*each.shape[:2], *pieces, 4]) for each in (frames, state.frames))
        words = _stack(*(tf.bitcast(each, tf.int32) for each in pixels), present, (0, 2))
        stacks = tf.reshape(tf.bitcast(words, tf.uint8), [*shape[:2], *pieces[::2], -1])
    return Stacks(stacks, present), FrameState(newest, seen)


def in_blocks(frame: tf.Tensor, block: int) -> tf.Tensor:
    """Make the s x s pixels of a block channels: [H, W, C] to [H / s, W / s, s s C]; unchanged if `block` is 1."""
    if block == 1:
        return frame
    height, width, channels = frame.shape
    order = np.arange(height * width).reshape(height // block, block, width // block, block).transpose(0, 2, 1, 3)
    pixels = tf.gather(tf.reshape(frame, [-1, channels]), order.ravel())  # faster than a transposition of small pieces
    return tf.reshape(pixels, [height // block, width // block, block**2 * channels])


@tf.function(jit_compile=True, autograph=False)
def _presence(done: tf.Tensor, seen: tf.Tensor, history: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return which frames of each stack are present, bool [T, B, D], and the next `FrameState.seen`."""
    known = tf.range(history)[:, tf.newaxis] >= history - seen
    known = tf.concat([known, tf.ones(done.shape, tf.bool)], axis=0)
    episode = tf.pad(tf.cumsum(tf.cast(done, tf.int32)), [[history, 0], [0, 0]])
    own = [known[offset] & tf.equal(episode[offset], episode[history:]) for offset in _offsets(history)]
    present = tf.stack(own, axis=-1)
    return present, tf.reduce_sum(tf.cast(present[-1, :, 1:], tf.int32), axis=-1)


# Compiled even where the layers around it are not: one pass over the bytes is several times faster on a CPU. With
# another result XLA would make it two passes. Changes of type stay outside: XLA would compute a word for each byte.
@tf.function(jit_compile=True, autograph=False)
def _stack(frames: tf.Tensor, before: tf.Tensor, present: tf.Tensor, first_axes: Sequence[int]) -> tf.Tensor:
    """Stack frames [T, B, ...] to [T, B, *some of their axes, D, *the others], where `first_axes` are the former."""
    sequence = tf.concat([time_first(before), frames], axis=0)
    planes = tf.stack([sequence[offset] for offset in _offsets(before.shape[1])])
    shown = tf.transpose(present, [2, 0, 1])
    planes *= tf.cast(tf.reshape(shown, [*shown.shape, *[1] * (planes.shape.rank - 3)]), planes.dtype)

    # A single transposition is several times faster than concatenation along such a short axis.
    axes = range(3, planes.shape.rank)
    first = [axes[axis] for axis in first_axes]
    return tf.transpose(planes, [1, 2, *first, 0, *(axis for axis in axes if axis not in first)])


def _offsets(history: int) -> list[slice]:
    """Slices of the sequence of all D - 1 + T frames: number k has for step t the frame D - 1 - k steps earlier."""
    return [slice(k, k - history or None) for k in range(history + 1)]


def time_first(frames: tf.Tensor) -> tf.Tensor:
    """Swap the axes of time and sequence: [B, T, ...] to [T, B, ...], and back."""
    return tf.transpose(frames, [1, 0, *range(2, frames.shape.rank)])
