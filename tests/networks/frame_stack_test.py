"""Frame stacks against queues of frames, one per sequence."""

from collections import deque

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.frame_stack import initial_frames, stack_frames

H, W = 3, 2


class NaiveStack:
    """The last `depth` frames of one sequence."""

    def __init__(self, depth, channels):
        self._blank = np.zeros((H, W, channels), np.uint8)
        self._frames = deque([self._blank] * depth, maxlen=depth)

    def step(self, frame, done):
        if done:
            self._frames.extend([self._blank] * self._frames.maxlen)
        self._frames.append(frame)
        return np.concatenate(self._frames, axis=-1)


def random_steps(length, batch, channels, seed=0, done=0.25):
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 256, (length, batch, H, W, channels), np.uint8)  # without the zero of an absent frame
    return frames, rng.random((length, batch)) < done


def naive(frames, done, depth):
    length, batch, _, _, channels = frames.shape
    stacks = [NaiveStack(depth, channels) for _ in range(batch)]
    return np.stack([[stacks[b].step(frames[t, b], done[t, b]) for b in range(batch)] for t in range(length)])


def in_calls(frames, done, depth, lengths, function=stack_frames):
    """Stack the frames in consecutive calls of the given lengths."""
    assert sum(lengths) == len(frames)
    state = initial_frames(frames.shape[1], frames.shape[2:], depth)
    outputs = []
    for length in lengths:
        (stacks, present), state = function(tf.constant(frames[:length]), tf.constant(done[:length]), state)
        assert np.all(np.repeat(present, frames.shape[-1], axis=-1) == np.any(stacks, axis=(2, 3)))
        outputs.append(stacks)
        frames, done = frames[length:], done[length:]
    return np.concatenate(outputs), state


@pytest.mark.parametrize("lengths", [[24], [1] * 24, [3, 1, 2, 10, 1, 1, 6]])
@pytest.mark.parametrize(("depth", "channels"), [(1, 1), (2, 1), (4, 1), (4, 3), (5, 2)])
def test_equals_a_queue_of_frames_across_calls(depth, channels, lengths):
    frames, done = random_steps(24, 8, channels)
    assert 20 < np.sum(done) < 100
    stacks, state = in_calls(frames, done, depth, lengths)
    expected = naive(frames, done, depth)
    assert stacks.dtype == np.uint8
    np.testing.assert_array_equal(stacks, expected)
    np.testing.assert_array_equal(state.frames, expected[-1, ..., channels:])
    present = np.split(expected[-1, ..., channels:], depth - 1, axis=-1) if depth > 1 else []
    np.testing.assert_array_equal(state.seen, sum((one.max(axis=(1, 2, 3)) > 0).astype(int) for one in present))


@pytest.mark.parametrize(("lengths", "depth"), [([3], 1), ([2, 1], 4)])
def test_compiled_by_xla_it_is_the_same(lengths, depth):
    frames, done = random_steps(3, 4, 1, done=0.5)
    compiled = tf.function(stack_frames, jit_compile=True, autograph=False)
    stacks, state = in_calls(frames, done, depth, lengths, compiled)
    expected_stacks, expected_state = in_calls(frames, done, depth, lengths)
    np.testing.assert_array_equal(stacks, expected_stacks)
    tf.nest.map_structure(np.testing.assert_array_equal, state, expected_state)


@pytest.mark.parametrize("lengths", [[6], [1, 2, 3]])
def test_a_black_frame_is_not_taken_for_an_absent_one(lengths):
    state, found = initial_frames(1, (H, W, 1), 3), []
    done = np.array([[True], [False], [False]] * 2)
    for part in np.split(done, np.cumsum(lengths)[:-1]):
        stacks, state = stack_frames(tf.zeros([len(part), 1, H, W, 1], tf.uint8), tf.constant(part), state)
        found.append(stacks.present[:, 0])
    np.testing.assert_array_equal(np.concatenate(found), [[0, 0, 1], [0, 1, 1], [1, 1, 1]] * 2)


def test_wrong_arguments_are_named():
    frames, done = random_steps(4, 2, 3)
    state = initial_frames(2, (H, W, 3), 4)
    with pytest.raises(ValueError, match="frames must have rank 5"):
        stack_frames(frames[0], done, state)
    with pytest.raises(ValueError, match="done must have shape"):
        stack_frames(frames, done[:1], state)
    with pytest.raises(ValueError, match="state must have shape"):
        stack_frames(frames, done, initial_frames(1, (H, W, 3), 4))
    with pytest.raises(ValueError, match="state must hold whole frames of 3 channels"):
        stack_frames(frames, done, state._replace(frames=state.frames[..., :-1]))
    with pytest.raises(ValueError, match="frame_shape must be"):
        initial_frames(2, (H, W), 4)
    with pytest.raises(ValueError, match="depth must be at least 1"):
        initial_frames(2, (H, W, 3), 0)
