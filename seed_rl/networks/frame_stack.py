"""Stacks of the last frames, rebuilt from frames that were sent and stored once each.

Shapes: T steps, B sequences, frames of H x W pixels and C channels, stacks of D frames. A stack holds its frames along
the channels, the oldest first. The state that is handed from call to call is a stack of the last D - 1 frames.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.rl import checks


class FrameState(NamedTuple):
    """The frames before the current one."""

    frames: tf.Tensor
    """uint8 [B, H, W, (D - 1) C]"""
    seen: tf.Tensor
    """int32 [B]: how many of them, the last ones, belong to the current episode; the others are absent."""


def initial_frames(batch: int, frame_shape: Sequence[int], depth: int) -> FrameState:
    """The state before any frame (with no elements if `depth` D is 1)."""
    if len(frame_shape) != 3:
        raise ValueError(f"frame_shape must be (H, W, C), got {tuple(frame_shape)}")
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    height, width, channels = frame_shape
    frames = tf.zeros([batch, height, width, (depth - 1) * channels], tf.uint8)
    return FrameState(frames, tf.zeros([batch], tf.int32))


def stack_frames(
    frames: Any, done: Any, state: FrameState, transform: Callable[[tf.Tensor], tf.Tensor] = tf.identity
) -> tuple[tf.Tensor, FrameState]:
    """Every frame together with the D - 1 before it; absent frames, those of earlier episodes, are zero.

    To stack T frames at once, or in several calls that hand on the state, is the same.

    Args:
      frames: uint8 [T, B, H, W, C].
      done: bool [T, B]: whether a frame is the first of its episode: older frames are absent from its stack.
      state: from which the depth D is taken.
      transform: applied to the frames [..., H, W, C] of a stack, of which it keeps the shape. Absent ones are zero
        behind it.

    Returns:
      The stacks [T, B, H, W, D C], of the dtype of the transformed frames, and the new state.
    """
    checks.check_rank("frames", frames, 5)
    shape = checks.static_shape(frames)
    checks.check_shape("done", done, shape[:2])
    checks.check_shape("state", state.frames, [*shape[1:4], None])
    history, rest = divmod(checks.static_shape(state.frames)[-1], shape[-1])
    if rest:
        raise ValueError(f"state must hold whole frames of {shape[-1]} channels, got {state.frames.shape}")
    if history == 0:
        return transform(tf.convert_to_tensor(frames)), state

    # Offset k of the sequence [D - 1 + T, ...] of all frames is, at step t, the frame D - 1 - k steps before it.
    offsets = [slice(k, k - history or None) for k in range(history + 1)]
    sequence = tf.concat([_unstack(state.frames, history), frames], axis=0)
    known = tf.concat([tf.range(history)[:, tf.newaxis] >= history - state.seen, tf.ones(shape[:2], tf.bool)], axis=0)
    episode = tf.pad(tf.cumsum(tf.cast(done, tf.int32)), [[history, 0], [0, 0]])
    present = tf.stack([known[offset] & tf.equal(episode[offset], episode[history:]) for offset in offsets])
    transformed = transform(sequence)
    stacks = _stack(tf.stack([transformed[offset] for offset in offsets], axis=1), tf.transpose(present, [1, 0, 2]))
    last = present[1:, -1]
    frames_after = _stack(sequence[tf.newaxis, shape[0] :], last[tf.newaxis])[0]
    return stacks, FrameState(frames_after, tf.reduce_sum(tf.cast(last, tf.int32), axis=0))


def _stack(planes: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Frames [T, D, B, H, W, C], those that are not `present` [T, D, B] zeroed, as stacks [T, B, H, W, D C]."""
    planes *= tf.cast(present, planes.dtype)[..., tf.newaxis, tf.newaxis, tf.newaxis]
    # One transposition is several times faster than concatenation along such a short axis.
    stacks = tf.transpose(planes, [0, 2, 3, 4, 1, 5])
    return tf.reshape(stacks, tf.concat([tf.shape(stacks)[:-2], [stacks.shape[-2] * stacks.shape[-1]]], axis=0))


def _unstack(state: Any, count: int) -> tf.Tensor:
    """[B, H, W, count C] as [count, B, H, W, C]."""
    frames = tf.reshape(state, tf.concat([tf.shape(state)[:-1], [count, state.shape[-1] // count]], axis=0))
    return tf.transpose(frames, [3, 0, 1, 2, 4])
