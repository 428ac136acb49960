"""The loss of the R2D2 agent against its formulas written out in numpy, value and gradient."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.r2d2.loss import r2d2_loss
from seed_rl.types import EnvOutput

NUM_ACTIONS = 4
SETTINGS = R2D2(discount=0.9, n_steps=3)


def random_sequences(length, batch, seed=0):
    """T + 1 steps of B sequences, by the names of the loss's arguments."""
    rng = np.random.default_rng([length, batch, seed])
    return {
        "online_q": 2 * rng.standard_normal((length + 1, batch, NUM_ACTIONS)),
        "target_q": 2 * rng.standard_normal((length + 1, batch, NUM_ACTIONS)),
        "action": rng.integers(0, NUM_ACTIONS, (length + 1, batch)),
        "reward": 3 * rng.standard_normal((length + 1, batch)),
        "done": rng.random((length + 1, batch)) < 0.3,
        "importance_weights": rng.uniform(0.2, 1.0, batch),
    }


def loss_of(data, **settings):
    """`r2d2_loss` of numpy arrays or tensors by name."""
    floats = {name: tf.cast(data[name], tf.float32) for name in ("online_q", "target_q", "importance_weights")}
    env_output = EnvOutput(
        tf.cast(data["reward"], tf.float32), tf.constant(data["done"]), tf.zeros(data["done"].shape, tf.bool), ()
    )
    action = tf.constant(data["action"], tf.int32)
    return r2d2_loss(action=action, env_output=env_output, config=dataclasses.replace(SETTINGS, **settings), **floats)


def rescale(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x


def unscale(x):
    root = np.sqrt(1 + 4e-3 * (abs(x) + 1 + 1e-3))
    return np.sign(x) * (((root - 1) / 2e-3) ** 2 - 1)


def literal_td_errors(q_of_action, bootstrap, reward, done, config):
    """One sequence, one step and one reward at a time, float64."""
    length, batch = reward.shape[0] - 1, reward.shape[1]
    errors = np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        end = min(t + config.n_steps, length)  # the step that bootstraps
        target, discount = 0.0, 1.0
        for k in range(t + 1, end + 1):
            # Action a_{k-1} leads to the reward of step k, and to the end of the episode if step k is done.
            r = reward[k, b]
            if config.max_abs_reward:
                r = min(max(r, -config.max_abs_reward), config.max_abs_reward)
            target += discount * r
            discount *= 0.0 if done[k, b] else config.discount
        target += discount * (unscale(bootstrap[end, b]) if config.value_rescaling else bootstrap[end, b])
        errors[t, b] = (rescale(target) if config.value_rescaling else target) - q_of_action[t, b]
    return errors


def reference(data, **settings):
    """The loss, the TD errors and the values of the actions taken, float64."""
    config = dataclasses.replace(SETTINGS, **settings)
    steps, batch = data["reward"].shape
    q_of_action, bootstrap = np.zeros((steps, batch)), np.zeros((steps, batch))
    for t, b in np.ndindex(steps, batch):
        q_of_action[t, b] = data["online_q"][t, b, data["action"][t, b]]
        bootstrap[t, b] = data["target_q"][t, b, int(np.argmax(data["online_q"][t, b]))]
    errors = literal_td_errors(q_of_action, bootstrap, data["reward"], data["done"], config)
    losses = [data["importance_weights"][b] * 0.5 * sum(errors[:, b] ** 2) for b in range(batch)]
    return sum(losses) / batch, errors, unscale(q_of_action[:-1]) if config.value_rescaling else q_of_action[:-1]


def assert_equals_the_reference(data, **settings):
    result = loss_of(data, **settings)
    total, errors, values = reference(data, **settings)
    assert result.total.shape == ()
    assert result.td_errors.shape == errors.shape == result.values.shape
    assert {x.dtype for x in result} == {tf.float32}
    np.testing.assert_allclose(result.td_errors, errors, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(result.values, values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result.total, total, rtol=1e-4)


@pytest.mark.parametrize("max_abs_reward", [0.0, 1.0])
@pytest.mark.parametrize("value_rescaling", [False, True])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 5, 9])
def test_loss_and_errors_are_those_of_the_formulas(n_steps, value_rescaling, max_abs_reward):
    settings = {"n_steps": n_steps, "value_rescaling": value_rescaling, "max_abs_reward": max_abs_reward}
    for length, batch in itertools.product((1, 2, 5), (1, 3)):
        assert_equals_the_reference(random_sequences(length, batch), **settings)
    data = random_sequences(5, 30)
    assert len({tuple(done) for done in data["done"].T}) > 15, "episodes begin anywhere"
    assert np.abs(reference(data, **settings)[1] - reference(data, **settings, discount=0.5)[1]).max() > 0.1
    assert_equals_the_reference(data, **settings, discount=0.5)


@pytest.mark.parametrize(
    ("done", "errors"),
    [
        ((False, False, False, False), (12.0, 44.0, 84.0)),  # 1 + 2/2 + 40/4, 2 + 4/2 + 160/4, 4 + 160/2
        ((True, False, False, False), (12.0, 44.0, 84.0)),  # step 0 is the first of its episode: nothing is cut
        ((False, True, False, False), (1.0, 44.0, 84.0)),  # a_0 ended the episode: its reward alone
        ((False, False, True, False), (2.0, 2.0, 84.0)),  # a_1 did: 1 + 2/2 and 2
        ((False, False, False, True), (12.0, 4.0, 4.0)),  # a_2 did: 2 + 4/2 and 4; a_0 does not see as far
    ],
)
def test_three_steps_by_hand(done, errors):
    """Two rewards, discount 1/2, no rescaling, Q of the actions taken zero."""
    target_q = np.zeros((4, 1, NUM_ACTIONS))
    target_q[:, 0, 2] = [1000.0, 3000.0, 40.0, 160.0]
    online_q = np.zeros((4, 1, NUM_ACTIONS))
    online_q[:, 0, 2] = 1.0  # preferred; action 1 is taken
    data = {
        "online_q": online_q,
        "target_q": target_q,
        "action": np.ones((4, 1), int),
        "reward": np.array([[500.0], [1.0], [2.0], [4.0]]),
        "done": np.array(done)[:, None],
        "importance_weights": np.ones(1),
    }
    result = loss_of(data, discount=0.5, n_steps=2, value_rescaling=False)
    np.testing.assert_array_equal(result.td_errors[:, 0], errors)


@pytest.mark.parametrize(("length", "batch", "n_steps"), [(1, 1, 1), (1, 3, 3), (5, 1, 9), (5, 3, 3)])
def test_the_gradient_is_minus_the_weighted_error_at_the_actions_taken(length, batch, n_steps):
    data = random_sequences(length, batch)
    names = ("online_q", "target_q", "reward", "importance_weights")
    tensors = {name: tf.constant(data[name], tf.float32) for name in names}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        total = loss_of(data | tensors, n_steps=n_steps).total
    gradients = tape.gradient(total, tensors)
    assert [name for name in names if gradients[name] is not None] == ["online_q"]
    gradient = gradients["online_q"].numpy()
    _, errors, _ = reference(data, n_steps=n_steps)
    expected = np.zeros_like(data["online_q"])  # step T and the other actions: zero
    for t, b in np.ndindex(length, batch):
        expected[t, b, data["action"][t, b]] = -data["importance_weights"][b] * errors[t, b] / batch
    assert np.count_nonzero(expected) == length * batch
    np.testing.assert_array_equal(gradient == 0, expected == 0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
