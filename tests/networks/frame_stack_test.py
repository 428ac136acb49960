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
    frames = rng.integers(1, 256, (length, batch, H, W, channels), np.uint8)  # without the zero of a missing frame
    return frames, rng.random((length, batch)) < done


def naive(frames, done, depth):
    length, batch, _, _, channels = frames.shape
    stacks = [NaiveStack(depth, channels) for _ in range(batch)]
    return np.stack([[stacks[b].step(frames[t, b], done[t, b]) for b in range(batch)] for t in range(length)])


def in_calls(frames, done, depth, lengths, function=stack_frames):
    """Stacks in calls of the given lengths, one after the other."""
    assert sum(lengths) == len(frames)
    state = initial_frames(frames.shape[1], frames.shape[2:], depth)
    outputs = []
    for length in lengths:
        stacks, state = function(tf.constant(frames[:length]), tf.constant(done[:length]), state)
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
    np.testing.assert_array_equal(state, expected[-1, ..., channels:])


def test_a_done_step_zeroes_the_state_of_its_sequence_only():
    frames, _ = random_steps(1, 2, 1)
    state = tf.fill([2, H, W, 3], tf.constant(9, tf.uint8))
    stacks, new_state = stack_frames(frames, np.array([[True, False]]), state)
    np.testing.assert_array_equal(stacks[0, 0, ..., :3], np.zeros((H, W, 3)))
    np.testing.assert_array_equal(stacks[0, 1, ..., :3], np.full((H, W, 3), 9))
    np.testing.assert_array_equal(stacks[0, ..., 3:], frames[0])
    np.testing.assert_array_equal(new_state, stacks[0, ..., 1:])


@pytest.mark.parametrize(("lengths", "depth"), [([3], 1), ([2, 1], 4)])
def test_compiled_by_xla_it_is_the_same(lengths, depth):
    frames, done = random_steps(3, 4, 1, done=0.5)
    compiled = tf.function(stack_frames, jit_compile=True, autograph=False)
    stacks, state = in_calls(frames, done, depth, lengths, compiled)
    expected_stacks, expected_state = in_calls(frames, done, depth, lengths)
    np.testing.assert_array_equal(stacks, expected_stacks)
    np.testing.assert_array_equal(state, expected_state)


def test_initial_frames_are_zeros():
    state = initial_frames(5, (H, W, 3), 4)
    assert state.shape == (5, H, W, 9)
    assert state.dtype == tf.uint8
    assert not np.any(state)
    assert initial_frames(5, (H, W, 3), 1).shape == (5, H, W, 0)


def test_shapes_are_known_while_tracing_even_for_an_unknown_batch():
    @tf.function(
        input_signature=[tf.TensorSpec([5, None, H, W, 1], tf.uint8), tf.TensorSpec([5, None], tf.bool)],
        autograph=False,
    )
    def function(frames, done):
        stacks, state = stack_frames(frames, done, initial_frames(tf.shape(done)[1], (H, W, 1), 4))
        assert stacks.shape.as_list() == [5, None, H, W, 4]
        assert state.shape.as_list() == [None, H, W, 3]
        return stacks

    frames, done = random_steps(5, 3, 1)
    np.testing.assert_array_equal(function(frames, done), naive(frames, done, 4))


def test_wrong_arguments_are_named():
    frames, done = random_steps(4, 2, 3)
    state = initial_frames(2, (H, W, 3), 4)
    with pytest.raises(ValueError, match="frames must have rank 5"):
        stack_frames(frames[0], done, state)
    with pytest.raises(ValueError, match="done must have shape"):
        stack_frames(frames, done[:1], state)
    with pytest.raises(ValueError, match="state must have shape"):
        stack_frames(frames, done, state[:1])
    with pytest.raises(ValueError, match="state must hold whole frames of 3 channels"):
        stack_frames(frames, done, state[..., :-1])
    with pytest.raises(ValueError, match="frame_shape must be"):
        initial_frames(2, (H, W), 4)
    with pytest.raises(ValueError, match="depth must be at least 1"):
        initial_frames(2, (H, W, 3), 0)
