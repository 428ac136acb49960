"""Stacks of the last frames, rebuilt from frames that were sent and stored once each.

Shapes: T steps, B sequences, frames of H x W pixels and C channels, stacks of D frames. A stack holds its frames along
the channels, the oldest first. The state that is handed from call to call is a stack of the last D - 1 frames.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def initial_frames(batch: int, frame_shape: Sequence[int], depth: int) -> tf.Tensor:
    """The state before any frame: zeros, uint8 [B, H, W, (D - 1) C] (with no elements if `depth` D is 1)."""
    if len(frame_shape) != 3:
        raise ValueError(f"frame_shape must be (H, W, C), got {tuple(frame_shape)}")
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    height, width, channels = frame_shape
    return tf.zeros([batch, height, width, (depth - 1) * channels], tf.uint8)


def stack_frames(frames: Any, done: Any, state: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Every frame together with the D - 1 before it, frames of earlier episodes zeroed.

    To stack T frames at once, or in several calls that hand on the state, is the same.

    Args:
      frames: uint8 [T, B, H, W, C].
      done: bool [T, B]: whether a frame is the first of its episode: older frames are zeroed before it is added.
      state: uint8 [B, H, W, (D - 1) C], from which the depth D is taken.

    Returns:
      The stacks, uint8 [T, B, H, W, D C], and the new state.
    """
    checks.check_rank("frames", frames, 5)
    shape = checks.static_shape(frames)
    checks.check_shape("done", done, shape[:2])
    checks.check_shape("state", state, [*shape[1:4], None])
    history, rest = divmod(checks.static_shape(state)[-1], shape[-1])
    if rest:
        raise ValueError(f"state must hold whole frames of {shape[-1]} channels, got {checks.static_shape(state)}")
    if history == 0:
        return tf.convert_to_tensor(frames), tf.convert_to_tensor(state)

    # Offset k of the sequence [D - 1 + T, ...] of all frames is, at step t, the frame D - 1 - k steps before it.
    offsets = [slice(k, k - history or None) for k in range(history + 1)]
    sequence = tf.concat([_unstack(state, history), frames], axis=0)
    planes = tf.stack([sequence[offset] for offset in offsets])
    # Frames of earlier episodes are already zero in the state: all of it counts as the episode before step 0.
    episode = tf.pad(tf.cumsum(tf.cast(done, tf.int32)), [[history, 0], [0, 0]])
    same_episode = tf.stack([tf.equal(episode[offset], episode[history:]) for offset in offsets])
    planes *= tf.cast(same_episode, planes.dtype)[..., tf.newaxis, tf.newaxis, tf.newaxis]

    # One transposition is several times faster than concatenation along such a short axis.
    stacks = tf.transpose(planes, [1, 2, 3, 4, 0, 5])
    stacks = tf.reshape(stacks, tf.concat([tf.shape(frames)[:-1], [(history + 1) * shape[-1]]], axis=0))
    return stacks, stacks[-1, ..., shape[-1] :]


def _unstack(state: Any, count: int) -> tf.Tensor:
    """[B, H, W, count C] as [count, B, H, W, C]."""
    frames = tf.reshape(state, tf.concat([tf.shape(state)[:-1], [count, state.shape[-1] // count]], axis=0))
    return tf.transpose(frames, [3, 0, 1, 2, 4])
