"""Frame stacking, from frames that are sent and stored only once each.

Shapes: T steps, B sequences, frames of H x W pixels and C channels, stacks of D frames. A stack concatenates its frames
along the channel axis, oldest first. The state passed from call to call is a stack of the last D - 1 frames.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.rl import checks


class FrameState(NamedTuple):
    """The frames before the current one."""

    frames: tf.Tensor
    """uint8 [B, H, W, (D - 1) C]"""
    seen: tf.Tensor
    """int32 [B]: how many of them, counted from the newest, belong to the current episode; the others are absent."""


def initial_frames(batch: int, frame_shape: Sequence[int], depth: int) -> FrameState:
    """The state before any frame, given (H, W, C) and the depth D; it has no elements if D is 1."""
    height, width, channels = frame_shape
    frames = tf.zeros([batch, height, width, (depth - 1) * channels], tf.uint8)
    return FrameState(frames, tf.zeros([batch], tf.int32))


class Stacks(NamedTuple):
    """Every frame together with the D - 1 before it."""

    frames: tf.Tensor
    """uint8 [T, B, H, W, D C]: absent frames are zero."""
    present: tf.Tensor
    """bool [T, B, D]: whether a frame belongs to the episode of the newest one of its stack."""


def stack_frames(frames: Any, done: Any, state: FrameState) -> tuple[Stacks, FrameState]:
    """Stack T frames; return the stacks and the new state.

    Stacking T frames at once or in several calls that pass on the state gives the same result.

    Args:
      frames: uint8 [T, B, H, W, C].
      done: bool [T, B]: whether a frame is the first of its episode, so that older frames are absent from its stack.
      state: the state before these frames, whose shape determines the depth D.
    """
    checks.check_rank("frames", frames, 5)
    shape = checks.static_shape(frames)
    checks.check_shape("done", done, shape[:2])
    checks.check_shape("state", state.frames, [*shape[1:4], None])
    history, rest = divmod(checks.static_shape(state.frames)[-1], shape[-1])
    if rest:
        raise ValueError(f"state must hold whole frames of {shape[-1]} channels, got {state.frames.shape}")
    if history == 0:
        return Stacks(tf.convert_to_tensor(frames), tf.ones([*shape[:2], 1], tf.bool)), state

    # In the sequence of all D - 1 + T frames, offset k holds for step t the frame D - 1 - k steps earlier.
    offsets = [slice(k, k - history or None) for k in range(history + 1)]
    sequence = tf.concat([_unstack(state.frames, history), frames], axis=0)
    known = tf.concat([tf.range(history)[:, tf.newaxis] >= history - state.seen, tf.ones(shape[:2], tf.bool)], axis=0)
    episode = tf.pad(tf.cumsum(tf.cast(done, tf.int32)), [[history, 0], [0, 0]])
    present = tf.stack([known[offset] & tf.equal(episode[offset], episode[history:]) for offset in offsets])
    planes = tf.stack([sequence[offset] for offset in offsets])
    planes *= tf.cast(present, planes.dtype)[..., tf.newaxis, tf.newaxis, tf.newaxis]

    # A single transposition is several times faster than concatenation along such a short axis.
    stacks = tf.transpose(planes, [1, 2, 3, 4, 0, 5])
    stacks = tf.reshape(stacks, tf.concat([tf.shape(frames)[:-1], [(history + 1) * shape[-1]]], axis=0))
    seen = tf.reduce_sum(tf.cast(present[1:, -1], tf.int32), axis=0)
    return Stacks(stacks, tf.transpose(present, [1, 2, 0])), FrameState(stacks[-1, ..., shape[-1] :], seen)


def _unstack(state: Any, count: int) -> tf.Tensor:
    """Split [B, H, W, count C] into [count, B, H, W, C]."""
    frames = tf.reshape(state, tf.concat([tf.shape(state)[:-1], [count, state.shape[-1] // count]], axis=0))
    return tf.transpose(frames, [3, 0, 1, 2, 4])
