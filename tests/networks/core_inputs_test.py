import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.core_inputs import previous_step_features


def test_features_reward_and_action_in_that_order():
    features = np.array([[[0.5, -2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]], np.float32)
    reward = np.array([[2.5, -0.5], [-7.0, 1.0]])
    action = np.array([[[1.0, 0.0, 0.25], [0.0, -0.5, 1.0]], [[0.0, 1.0, 0.0], [-1.0, 1.0, 0.0]]])
    result = previous_step_features(features, reward, action)
    expected = [
        [[0.5, -2.0, 2.5, 1.0, 0.0, 0.25], [3.0, 4.0, -0.5, 0.0, -0.5, 1.0]],
        [[5.0, 6.0, -7.0, 0.0, 1.0, 0.0], [7.0, 8.0, 1.0, -1.0, 1.0, 0.0]],
    ]
    np.testing.assert_array_equal(result, np.array(expected, np.float32))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_the_result_has_the_dtype_of_the_features(dtype):
    features = tf.ones([1, 1, 4], dtype)
    result = tf.function(previous_step_features, jit_compile=True)(features, tf.ones([1, 1]), tf.zeros([1, 1, 2]))
    assert result.dtype == dtype
    assert result.shape == (1, 1, 7)


def test_wrong_shapes_are_named():
    features, reward, action = np.zeros([4, 3, 5]), np.zeros([4, 3]), np.zeros([4, 3, 2])
    with pytest.raises(ValueError, match="features must have rank 3"):
        previous_step_features(features[0], reward, action)
    with pytest.raises(ValueError, match="reward must have shape"):
        previous_step_features(features, reward[:1], action)
    for wrong in (action[..., 0], action[:1], action[:, :2], action[..., None]):
        with pytest.raises(ValueError, match="prev_action must have shape"):
            previous_step_features(features, reward, wrong)
