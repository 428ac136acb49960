"""Frame stacks against queues of frames, one per sequence. `trunk_test` has frames in blocks."""

from collections import deque

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.frame_stack import initial_frames, stack_frames

H, W = 3, 2


def random_steps(length, batch, channels):
    """Frames, some of them black, and whether each begins an episode."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (length, batch, H, W, channels), np.uint8)
    frames[rng.random((length, batch)) < 0.2] = 0
    return frames, rng.random((length, batch)) < 0.25


def queued(frames, done, depth):
    """The last `depth` frames at each step, black if absent, and which are present: [T, B, H, W, D C] and [T, B, D]."""
    length, batch, _, _, channels = frames.shape
    stacks, present = np.zeros((length, batch, H, W, depth * channels)), np.zeros((length, batch, depth), bool)
    for b in range(batch):
        queue = deque([None] * depth, maxlen=depth)
        for t in range(length):
            if done[t, b]:
                queue.extend([None] * depth)
            queue.append(frames[t, b])
            stacks[t, b] = np.concatenate([np.zeros((H, W, channels)) if x is None else x for x in queue], axis=-1)
            present[t, b] = [x is not None for x in queue]
    return stacks, present


def present_frames(state):
    """The frames of a state, black if absent."""
    history = state.frames.shape[1]
    present = np.arange(history) >= history - state.seen.numpy()[:, None]
    return np.where(present[:, :, None, None, None], state.frames, 0)


@pytest.mark.parametrize(
    ("depth", "channels", "lengths"),
    [(1, 1, [24]), (2, 1, [1] * 24), (4, 3, [3, 1, 2, 10, 1, 1, 6]), (5, 2, [24])],
)
def test_equals_a_queue_of_frames_across_calls(depth, channels, lengths):
    frames, done = random_steps(24, 8, channels)
    state, found = initial_frames(8, (H, W, channels), depth), []
    for rows in np.split(np.arange(24), np.cumsum(lengths)[:-1]):
        stacks, state = stack_frames(tf.constant(frames[rows]), tf.constant(done[rows]), state)
        found.append(stacks)
    stacks, present = (np.concatenate(parts) for parts in zip(*found, strict=True))
    expected, expected_present = queued(frames, done, depth)
    assert stacks.dtype == np.uint8
    np.testing.assert_array_equal(stacks, expected)
    np.testing.assert_array_equal(present, expected_present)
    older = np.moveaxis(expected[-1].reshape(8, H, W, depth, channels), 3, 1)[:, 1:]
    np.testing.assert_array_equal(present_frames(state), older)
    np.testing.assert_array_equal(state.seen, expected_present[-1, :, 1:].sum(axis=-1))
