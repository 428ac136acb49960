"""Distributions over actions against closed forms, sums over all actions, frequencies and numerical integrals."""

import math

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.distributions import Categorical, ClippedNormal, Joint, SquashedNormal, distribution_of
from seed_rl.rl.masks import ILLEGAL
from seed_rl.specs import ContinuousSpec, MixedSpec
from tests.support.gradients import gradient

MANY = 40_000
NORMAL = np.array([0.4, -1.5, 0.3, -2.0], np.float32)  # two means, and two numbers that deviations come from
LOW, HIGH = (-1.0, 0.0), (1.0, 5.0)
CATEGORICAL = Categorical(6)


def repeated(parameters):
    return tf.tile(tf.constant(parameters, tf.float32)[None], [MANY, 1])


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def parameter_of(deviation):
    """The parameter that makes a deviation."""
    return np.log(np.expm1(deviation - 1e-3)) - math.log(math.expm1(1 - 1e-3))


def test_log_prob_and_entropy_of_a_choice_are_those_of_the_softmax():
    logits = np.random.default_rng(0).normal(0, 3, (4, 3, 6)).astype(np.float32)
    p, actions = softmax(logits), np.random.default_rng(1).integers(0, 6, (4, 3))
    log_prob, entropy = CATEGORICAL.log_prob(logits, actions), CATEGORICAL.entropy(logits)
    assert log_prob.dtype == CATEGORICAL.entropy(tf.cast(logits, tf.bfloat16)).dtype == tf.float32
    taken = np.take_along_axis(p, actions[..., None], -1)[..., 0]
    np.testing.assert_allclose(log_prob, np.log(taken), rtol=1e-5, atol=1e-6)
    by_logits = gradient(lambda x: tf.reduce_sum(CATEGORICAL.log_prob(x, actions)), logits)
    np.testing.assert_allclose(by_logits, np.eye(6)[actions] - p, atol=1e-6)
    expected = -np.sum(p * np.log(p), -1)
    np.testing.assert_allclose(entropy, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient(CATEGORICAL.entropy, logits), -p * (np.log(p) + expected[..., None]), atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_extreme_logits_stay_finite_with_their_gradients(scale):
    x = tf.constant([[scale, -scale, 0.0], [-scale, -scale, -scale]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        entropy = CATEGORICAL.entropy(x)
        log_prob = CATEGORICAL.log_prob(x, [0, 1])
    np.testing.assert_allclose(entropy, [0.0, np.log(3.0)], atol=1e-6)
    np.testing.assert_allclose(log_prob, [0.0, -np.log(3.0)], atol=1e-6)
    np.testing.assert_allclose(CATEGORICAL.log_prob(x, [1, 0])[0], -2.0 * scale)
    assert np.all(np.isfinite(tape.gradient(entropy, x)))
    assert np.all(np.isfinite(tape.gradient(log_prob, x)))


def test_samples_of_a_choice_follow_the_softmax_by_the_seed_alone():
    logits, count = np.array([2.0, 0.0, -1.0, 1.0, -6.0, ILLEGAL], np.float32), 200_000
    draws = [CATEGORICAL.sample(tf.tile(logits[None], [count, 1]), seed) for seed in ([3, 4], [3, 4], [3, 5], [4, 4])]
    p = softmax(logits)
    frequencies = np.bincount(draws[0], minlength=6) / count
    assert np.all(np.abs(frequencies - p) <= 5 * np.sqrt(p * (1 - p) / count)), "and so the impossible is never drawn"
    assert [bool(np.all(draw == draws[0])) for draw in draws] == [True, True, False, False]


def test_several_choices_are_independent():
    logits = np.array([0.5, -0.5, 1.0, 0.0, -2.0], np.float32)
    joint = np.outer(softmax(logits[:2]), softmax(logits[2:]))
    actions = np.array([[a, b] for a in range(2) for b in range(3)], np.int32)
    distribution = Joint((2, 3))
    log_prob = distribution.log_prob(np.tile(logits, (6, 1)), actions)
    np.testing.assert_allclose(log_prob, np.log(joint).ravel(), rtol=1e-5)
    np.testing.assert_allclose(distribution.entropy(logits), -(joint * np.log(joint)).sum(), rtol=1e-5)
    drawn = distribution.sample(repeated(logits), tf.constant([3, 4])).numpy()
    counts = np.zeros((2, 3))
    np.add.at(counts, tuple(drawn.T), 1)
    assert (np.abs(counts / MANY - joint) < 4 * np.sqrt(joint * (1 - joint) / MANY)).all()
    np.testing.assert_array_equal(distribution.features([[1, 0], [0, 2]]), [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
    np.testing.assert_array_equal(distribution.mode([logits, [0.0, 3.0, 1.0, 1.0, 0.0]]), [[0, 0], [1, 0]])


def test_choices_and_numbers_are_independent_and_share_a_vector():
    parameters = np.random.default_rng(0).normal(size=(6, 5 + 4)).astype(np.float32)
    choices, numbers = Joint((2, 3)), SquashedNormal(LOW, HIGH)
    mixed = distribution_of(MixedSpec((2, 3), LOW, HIGH))
    assert (mixed.num_parameters, mixed.num_deviations, mixed.max_entropy(parameters)) == (9, 2, None)
    drawn, best = mixed.sample(parameters, tf.constant([3, 4])).numpy(), mixed.mode(parameters).numpy()
    assert (drawn[:, :2] % 1 == 0).all()
    assert ((np.array(LOW) < drawn[:, 2:]) & (drawn[:, 2:] < np.array(HIGH))).all()
    np.testing.assert_array_equal(best[:, :2], choices.mode(parameters[:, :5]))
    np.testing.assert_array_equal(best[:, 2:], numbers.mode(parameters[:, 5:]))
    whole, rest = drawn[:, :2].astype(np.int32), drawn[:, 2:]
    log_prob = choices.log_prob(parameters[:, :5], whole) + numbers.log_prob(parameters[:, 5:], rest)
    np.testing.assert_allclose(mixed.log_prob(parameters, drawn), log_prob, rtol=1e-5)
    entropy = choices.entropy(parameters[:, :5]) + numbers.entropy(parameters[:, 5:])
    np.testing.assert_allclose(mixed.entropy(parameters), entropy, rtol=1e-5)
    features = np.concatenate([choices.features(whole), numbers.features(rest)], axis=1)
    np.testing.assert_array_equal(mixed.features(drawn), features)


@pytest.mark.parametrize(("mean", "deviation"), [(0.7, 0.1), (-5.0, 1.0), (0.0, 10.0), (0.7, 30.0)])
def test_the_entropy_of_a_squashed_normal_is_exact_for_large_deviations_too(mean, deviation):
    u = mean + deviation * np.linspace(-12, 12, 100_001)
    weights = np.exp(-0.5 * np.square((u - mean) / deviation))
    log_slope = 2 * (math.log(2) - u - np.logaddexp(0, -2 * u)) + math.log(2)
    expected = math.log(deviation) + 0.5 * math.log(2 * math.pi * math.e) + np.average(log_slope, weights=weights)
    entropy = SquashedNormal((2.0,), (6.0,)).entropy(np.array([mean, parameter_of(deviation)], np.float32))
    assert float(entropy) == pytest.approx(expected, abs=0.05 if deviation > 10 else 5e-3)


def test_samples_lie_inside_around_the_mode_and_have_the_moments_of_the_density():
    distribution = SquashedNormal(LOW, HIGH)
    drawn = distribution.sample(repeated(NORMAL), tf.constant([1, 2])).numpy()
    assert np.all((drawn >= LOW) & (drawn <= HIGH))
    u = np.arctanh((drawn - np.array([0.0, 2.5])) / np.array([1.0, 2.5]))
    deviation = np.log1p(np.exp(NORMAL[2:] + math.log(math.expm1(0.999)))) + 1e-3
    np.testing.assert_allclose(u.mean(axis=0), NORMAL[:2], atol=4 * deviation.max() / math.sqrt(MANY))
    np.testing.assert_allclose(u.std(axis=0), deviation, rtol=0.02)
    assert abs(np.corrcoef(u.T)[0, 1]) < 0.03
    np.testing.assert_allclose(distribution.mode(NORMAL), [np.tanh(0.4), 2.5 + 2.5 * np.tanh(-1.5)], rtol=1e-5)
    np.testing.assert_allclose(distribution.features([[-1.0, 0.0], [0.5, 5.0]]), [[-1, -1], [0.5, 1]])


@pytest.mark.parametrize(("side", "mean"), [(1, -8.0), (-1, 0.0), (1, 3.0), (-1, -8.0)])
def test_the_density_of_a_saturated_action_is_the_mean_of_the_tail(side, mean):
    """The probability of the tail, exact in float64, over its width, in the units of the action."""
    distribution, half = SquashedNormal((-3.0,), (3.0,)), 3.0
    begin = math.atanh(0.999)
    log_tail = math.log(0.5 * math.erfc((begin - side * mean) / math.sqrt(2)))
    for action in (0.9995, 1.0):
        log_prob = float(distribution.log_prob([mean, 0.0], [side * action * half]))
        assert log_prob == pytest.approx(log_tail - math.log(0.001 * half), rel=1e-4, abs=1e-4)


def test_actions_at_and_beyond_float32s_reach_of_the_bounds_have_finite_probabilities_and_gradients():
    distribution = SquashedNormal(LOW, HIGH)
    parameters, actions = np.array([[20.0, -20.0, 3.0, -30.0]] * 2), tf.constant([[1.0, 0.0], [-1.0, 5.0]])
    for function in (lambda x: distribution.log_prob(x, actions), distribution.entropy):
        assert np.isfinite(function(parameters)).all()
        assert np.isfinite(gradient(function, parameters)).all()
    extreme = distribution.sample(parameters, tf.constant([0, 0])).numpy()
    assert ((extreme >= LOW) & (extreme <= HIGH)).all()


def test_every_range_that_a_spec_allows_gives_finite_numbers():
    low = np.array([2e38, -1.7e38, -1.2e-38, 1e6], np.float32)
    high = np.array([3e38, 1.7e38, 1.2e-38, 1e6 + 1], np.float32)
    spec = ContinuousSpec(tuple(low.tolist()), tuple(high.tolist()))
    distribution = SquashedNormal(spec.low, spec.high)

    @tf.function(jit_compile=True, autograph=False)
    def numbers(parameters):
        actions = distribution.sample(parameters, tf.constant([1, 2]))
        log_prob = distribution.log_prob(parameters, actions)
        return actions, log_prob, distribution.entropy(parameters), distribution.features(actions)

    for tensor in numbers(tf.constant([[-0.5] * 4 + [0.0] * 4, [9.0] * 4 + [0.5] * 4])):
        assert np.isfinite(tensor).all()


def test_compiled_by_xla_the_same_seed_gives_the_same_actions():
    distribution = Joint((2, 3), SquashedNormal(LOW, HIGH))
    parameters = np.random.default_rng(0).normal(size=(10_000, distribution.num_parameters)).astype(np.float32)
    compiled = tf.function(distribution.sample, jit_compile=True, autograph=False)
    drawn = [sample(tf.constant(parameters), tf.constant([5, 6])).numpy() for sample in (distribution.sample, compiled)]
    np.testing.assert_allclose(*drawn, rtol=1e-5, atol=1e-5)


def test_wrong_shapes_are_named():
    normal = SquashedNormal(LOW, HIGH)
    for distribution, actions in ((normal, [2, 1]), (Joint((2, 3)), [2, 3]), (CATEGORICAL, [2, 1])):
        with pytest.raises(ValueError, match="actions must have"):
            distribution.log_prob(np.zeros([2, distribution.num_parameters]), np.zeros(actions, np.int32))
    with pytest.raises(ValueError, match="parameters must have"):
        normal.log_prob(np.zeros([2, 3]), np.zeros([2, 2]))


def test_the_density_that_comes_with_a_sample_is_that_of_the_sample():
    distribution, seed = SquashedNormal(LOW, HIGH), tf.constant([3, 4])
    actions, log_prob = distribution.sample_and_log_prob(repeated(NORMAL), seed)
    np.testing.assert_array_equal(actions, distribution.sample(repeated(NORMAL), seed))
    inside = np.abs(distribution.features(actions)).max(axis=-1) < 0.99
    assert inside.mean() > 0.8
    np.testing.assert_allclose(log_prob[inside], distribution.log_prob(repeated(NORMAL), actions)[inside], atol=2e-3)
    slope = gradient(lambda far: distribution.sample_and_log_prob(far, seed)[1], [[30.0, 0.0, -3.0, -3.0]])[0, 0]
    assert slope == pytest.approx(2.0), "the density of tanh(u) grows by e^2 for each unit of u, without a bound"


def test_the_bounds_of_clipped_actions_are_recognised_however_they_are_rounded():
    tenths = np.arange(-20, 21) / 10
    low, high = (bounds.ravel() for bounds in np.meshgrid(tenths, tenths))
    low, high = low[low < high], high[low < high]
    distribution = ClippedNormal(low, high)
    far = tf.concat([tf.fill([len(low)], 30.0), tf.zeros(len(low))], axis=0)
    assert float(distribution.log_prob(far, distribution.mode(far))) == pytest.approx(0.0, abs=1e-3)


def densities(distribution, parameters, points):
    """pi(a) of single numbers, float64."""
    tiled = np.tile(np.asarray(parameters, np.float32), (len(points), 1))
    return np.exp(distribution.log_prob(tiled, points[:, None].astype(np.float32)).numpy().astype(np.float64))


def test_clipped_actions_have_a_density_inside_and_a_probability_at_each_bound():
    low, high, parameters = (-1.0,), (3.0,), np.array([0.6, -0.5], np.float32)
    distribution = ClippedNormal(low, high)
    points = np.linspace(-0.9999, 2.9999, 20_001)
    mass = np.trapezoid(densities(distribution, parameters, points), points)
    ends = densities(distribution, parameters, np.array([-1.0, 3.0]))
    assert mass + ends.sum() == pytest.approx(1.0, abs=1e-3)
    assert ends[1] > 10 * ends[0] > 0
    drawn = distribution.sample(repeated(parameters), tf.constant([1, 2])).numpy()
    for end, probability in zip((-1.0, 3.0), ends, strict=True):
        assert np.mean(drawn == end) == pytest.approx(probability, abs=4 * np.sqrt(probability / MANY))
    assert np.median(drawn) == pytest.approx(float(distribution.mode(parameters)[0]), abs=0.05) == pytest.approx(2.2)
    deviation = math.log1p(math.exp(-0.5 + math.log(math.expm1(1 - 1e-3)))) + 1e-3
    expected = 0.5 * math.log(2 * math.pi * math.e * deviation**2) + math.log(2)
    assert float(distribution.entropy(parameters)) == pytest.approx(expected, abs=1e-5)
