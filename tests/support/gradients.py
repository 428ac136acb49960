"""Gradients of functions of one tensor, by TensorFlow and by finite differences."""

import numpy as np
import tensorflow as tf


def gradient(function, x):
    """Differentiate automatically; zero where the function does not depend on `x`."""
    x = tf.constant(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, unconnected_gradients="zero").numpy()


def finite_differences(function, x, epsilon=1e-2):
    """Central differences of a scalar function, element by element."""
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = epsilon
        result[index] = (float(function(x + step)) - float(function(x - step))) / (2 * epsilon)
    return result
