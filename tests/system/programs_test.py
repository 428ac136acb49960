"""Tests for compiled functions that are called thousands of times a second."""

import numpy as np
import tensorflow as tf

from seed_rl.system.programs import Program


def test_a_program_is_traced_once_for_each_combination_of_shapes():
    traced = []

    def weighted(pair, scale):
        traced.append((tuple(pair["x"].shape), tuple(pair["y"].shape)))
        return {"sum": scale * tf.reduce_sum(pair["x"]) + tf.cast(tf.reduce_sum(pair["y"]), tf.float32)}

    program = Program(weighted)
    for rows in (2, 3, 2, 3):
        pair = {"x": np.ones([rows, 2], np.float32), "y": tf.ones([rows], tf.int32)}
        assert program(pair, tf.constant(10.0))["sum"].numpy() == 21 * rows
    assert traced == [((2, 2), (2,)), ((3, 2), (3,))]
