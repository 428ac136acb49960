"""Values of the loss terms against closed forms, gradients against finite differences."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import categorical, losses
from seed_rl.rl.vtrace import vtrace

T, B, A = 4, 3, 5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def gradient(function, x):
    x = tf.constant(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = function(x)
    return tape.gradient(loss, x, unconnected_gradients="zero").numpy()


def finite_differences(function, x, epsilon=1e-2):
    """Central differences of a scalar function, element by element."""
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = epsilon
        result[index] = (float(function(x + step)) - float(function(x - step))) / (2 * epsilon)
    return result


def test_policy_gradient_loss(rng):
    log_probs, advantages = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(
        losses.policy_gradient_loss(log_probs, advantages), -np.mean(log_probs * advantages), rtol=1e-5
    )
    np.testing.assert_allclose(
        gradient(lambda x: losses.policy_gradient_loss(x, advantages), log_probs), -advantages / (T * B), rtol=1e-5
    )
    assert not np.any(gradient(lambda x: losses.policy_gradient_loss(log_probs, x), advantages))


def test_baseline_loss(rng):
    values, targets = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(losses.baseline_loss(values, targets), 0.5 * np.mean((targets - values) ** 2), rtol=1e-5)
    np.testing.assert_allclose(
        gradient(lambda x: losses.baseline_loss(x, targets), values), (values - targets) / (T * B), rtol=1e-5
    )
    assert not np.any(gradient(lambda x: losses.baseline_loss(values, x), targets))


def test_entropy_loss(rng):
    entropies = rng.standard_normal((T, B))
    np.testing.assert_allclose(losses.entropy_loss(entropies), -np.mean(entropies), rtol=1e-5)
    np.testing.assert_allclose(gradient(losses.entropy_loss, entropies), np.full((T, B), -1 / (T * B)), rtol=1e-5)


def entropy_loss_of_logits(logits):
    return losses.entropy_loss(categorical.entropy(logits))


def test_entropy_loss_of_a_categorical_policy(rng):
    logits = rng.standard_normal((T, B, A))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    entropy = -np.sum(p * np.log(p), -1)
    np.testing.assert_allclose(entropy_loss_of_logits(logits), -np.mean(entropy), rtol=1e-5)
    np.testing.assert_allclose(
        gradient(entropy_loss_of_logits, logits), p * (np.log(p) + entropy[..., None]) / (T * B), rtol=1e-4, atol=1e-7
    )


def test_kl_loss(rng):
    behaviour, target = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(losses.kl_loss(behaviour, target), np.mean(behaviour - target), rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda x: losses.kl_loss(behaviour, x), target), -1 / (T * B), rtol=1e-5)
    assert not np.any(gradient(lambda x: losses.kl_loss(x, target), behaviour))


def test_kl_loss_estimates_the_divergence_from_the_behaviour_policy(rng):
    mu, pi = rng.dirichlet(np.ones(A)), rng.dirichlet(np.ones(A))
    actions = rng.choice(A, (100, 1000), p=mu)
    estimate = losses.kl_loss(np.log(mu)[actions], np.log(pi)[actions])
    np.testing.assert_allclose(estimate, np.sum(mu * np.log(mu / pi)), atol=0.02)


def full_loss(logits, values, data):
    """The four terms together, with the targets and advantages of V-trace computed from `data['frozen']`.

    With frozen None they are computed from the arguments themselves, as an agent does.
    """
    behaviour_log_probs = categorical.log_prob(data["behaviour_logits"], data["actions"])
    log_probs = categorical.log_prob(logits, data["actions"])
    frozen_logits, frozen_values = data["frozen"] or (logits, values)
    log_rhos = categorical.log_prob(frozen_logits, data["actions"]) - behaviour_log_probs
    returns = vtrace(log_rhos, data["discount"], data["reward"], frozen_values[:-1], frozen_values[-1], lambda_=0.9)
    return (
        losses.policy_gradient_loss(log_probs, returns.pg_advantages)
        + 0.5 * losses.baseline_loss(values[:-1], returns.vs)
        + 0.1 * entropy_loss_of_logits(logits)
        + 0.3 * losses.kl_loss(behaviour_log_probs, log_probs)
    )


def test_gradient_of_the_whole_loss_is_that_with_targets_held_fixed(rng):
    logits, behaviour_logits = rng.standard_normal((2, T, B, A))
    values = rng.standard_normal((T + 1, B))
    data = {
        "behaviour_logits": behaviour_logits,
        "actions": rng.integers(0, A, (T, B)),
        "discount": np.where(rng.random((T, B)) < 0.3, 0.0, 0.9),
        "reward": rng.standard_normal((T, B)),
        "frozen": None,
    }
    fixed = data | {"frozen": (logits, values)}
    np.testing.assert_allclose(
        gradient(lambda x: full_loss(x, values, data), logits),
        finite_differences(lambda x: full_loss(x, values, fixed), logits),
        atol=2e-4,
    )
    by_values = gradient(lambda x: full_loss(logits, x, data), values)
    np.testing.assert_allclose(by_values, finite_differences(lambda x: full_loss(logits, x, fixed), values), atol=2e-4)
    assert not np.any(by_values[-1])  # the bootstrap value is a target only


def test_one_step_of_one_sequence():
    assert float(losses.policy_gradient_loss([[2.0]], [[3.0]])) == -6.0
    assert float(losses.baseline_loss([[1.0]], [[3.0]])) == 2.0
    assert float(losses.entropy_loss([[1.5]])) == -1.5
    assert float(losses.kl_loss([[-1.0]], [[-3.0]])) == 2.0


def test_losses_are_float32_even_of_bfloat16():
    x = tf.ones([T, B], tf.bfloat16)
    for loss in (
        losses.policy_gradient_loss(x, x),
        losses.baseline_loss(x, x),
        losses.kl_loss(x, x),
        losses.entropy_loss(x),
    ):
        assert loss.dtype == tf.float32
        assert loss.shape == ()


@pytest.mark.parametrize(
    ("loss", "first", "second"),
    [
        (losses.policy_gradient_loss, "log_probs", "advantages"),
        (losses.baseline_loss, "values", "targets"),
        (losses.kl_loss, "behaviour_log_probs", "target_log_probs"),
    ],
)
def test_shapes_that_would_broadcast_are_refused_by_name(loss, first, second):
    with pytest.raises(ValueError, match=f"{first} must have rank 2"):
        loss(np.zeros([T, B, 1]), np.zeros([T, B]))
    for wrong in ([T, B, 1], [T, 1], [B]):
        with pytest.raises(ValueError, match=f"{second} must have shape"):
            loss(np.zeros([T, B]), np.zeros(wrong))


def test_entropy_loss_wants_steps_and_sequences():
    for wrong in ([B], [T, B, A]):
        with pytest.raises(ValueError, match="entropies must have rank 2"):
            losses.entropy_loss(np.zeros(wrong))
