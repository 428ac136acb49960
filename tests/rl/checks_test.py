import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import checks


def test_right_shapes_pass():
    for tensor in (np.zeros([2, 3]), tf.zeros([2, 3]), [[0, 0, 0], [0, 0, 0]]):
        checks.check_rank("x", tensor, 2)
        checks.check_shape("x", tensor, [2, 3])
        checks.check_shape("x", tensor, [2, None])
        assert checks.static_length("x", tensor) == 2


def test_wrong_ones_are_named():
    with pytest.raises(ValueError, match=r"x must have rank 3, got shape \(2, 3\)"):
        checks.check_rank("x", np.zeros([2, 3]), 3)
    for expected in ([2], [2, 4], [2, 3, 1]):
        with pytest.raises(ValueError, match=r"x must have shape .*, got \(2, 3\)"):
            checks.check_shape("x", np.zeros([2, 3]), expected)
    with pytest.raises(ValueError, match="x must have a first axis"):
        checks.static_length("x", np.zeros([0, 3]))


def test_dimensions_unknown_while_tracing_pass_but_not_as_a_length():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def function(x):
        checks.check_rank("x", x, 2)
        checks.check_shape("x", x, [5, 3])
        with pytest.raises(ValueError, match="x must have rank 1"):
            checks.check_rank("x", x, 1)
        with pytest.raises(ValueError, match="x must have a first axis"):
            checks.static_length("x", x)
        return x

    function(tf.zeros([2, 3]))
