"""Distributions over actions against sums over all actions, and against numerical integrals."""

import math

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.distributions import Categorical, ClippedNormal, MultiCategorical, SquashedNormal, distribution_of
from seed_rl.specs import ContinuousSpec, DiscreteSpec, MultiDiscreteSpec

MANY = 40_000
NORMAL = np.array([0.4, -1.5, 0.3, -2.0], np.float32)  # two means, and two numbers that deviations come from
LOW, HIGH = (-1.0, 0.0), (1.0, 5.0)


def repeated(parameters):
    return tf.tile(tf.constant(parameters, tf.float32)[None], [MANY, 1])


def softmax(logits):
    exponentials = np.exp(logits - np.max(logits))
    return exponentials / exponentials.sum()


def test_kinds_of_actions():
    assert isinstance(distribution_of(DiscreteSpec(3)), Categorical)
    assert isinstance(distribution_of(MultiDiscreteSpec((2, 3))), MultiCategorical)
    assert isinstance(distribution_of(ContinuousSpec((0.0,), (1.0,))), SquashedNormal)
    assert isinstance(distribution_of(ContinuousSpec((0.0,), (1.0,)), clipped=True), ClippedNormal)
    assert [
        distribution_of(spec).num_parameters
        for spec in (DiscreteSpec(3), MultiDiscreteSpec((2, 3)), ContinuousSpec(LOW, HIGH))
    ] == [3, 5, 4]


def test_several_choices_are_independent():
    logits = np.array([0.5, -0.5, 1.0, 0.0, -2.0], np.float32)
    first, second = softmax(logits[:2]), softmax(logits[2:])
    joint = np.outer(first, second)
    actions = np.array([[a, b] for a in range(2) for b in range(3)], np.int32)
    distribution = MultiCategorical((2, 3))
    tiled = np.tile(logits, (6, 1))
    np.testing.assert_allclose(distribution.log_prob(tiled, actions), np.log(joint).ravel(), rtol=1e-5)
    np.testing.assert_allclose(distribution.entropy(logits), -(joint * np.log(joint)).sum(), rtol=1e-5)
    drawn = distribution.sample(repeated(logits), tf.constant([3, 4])).numpy()
    assert drawn.dtype == np.int32
    counts = np.zeros((2, 3))
    np.add.at(counts, tuple(drawn.T), 1)
    bound = 4 * np.sqrt(joint * (1 - joint) / MANY)
    assert (np.abs(counts / MANY - joint) < bound).all()
    np.testing.assert_array_equal(distribution.features([[1, 0], [0, 2]]), [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])


def densities(distribution, parameters, points):
    """pi(a) of single numbers, float64."""
    tiled = np.tile(np.asarray(parameters, np.float32), (len(points), 1))
    return np.exp(distribution.log_prob(tiled, points[:, None].astype(np.float32)).numpy().astype(np.float64))


@pytest.mark.parametrize(("mean", "raw"), [(0.0, 0.0), (0.7, -1.0), (-1.2, 0.5)])
def test_the_density_integrates_to_one_and_its_entropy_is_that_of_the_integral(mean, raw):
    distribution = SquashedNormal((2.0,), (6.0,))
    edges = 4 + 2 * np.tanh(np.linspace(-7, 7, 20_001))  # fine where the density may be steep
    points, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    density = densities(distribution, [mean, raw], points)
    assert np.sum(density * widths) == pytest.approx(1, abs=2e-3)
    entropy = -np.sum(widths * density * np.log(np.maximum(density, 1e-30)))
    assert float(distribution.entropy([mean, raw])) == pytest.approx(entropy, abs=5e-3)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0, 10.0, 30.0])
@pytest.mark.parametrize("mean", [0.0, 0.7, -5.0])
def test_the_entropy_of_a_squashed_normal_is_exact_for_large_deviations_too(mean, deviation):
    u = mean + deviation * np.linspace(-12, 12, 100_001)
    weights = np.exp(-0.5 * np.square((u - mean) / deviation))
    log_slope = 2 * (math.log(2) - u - np.logaddexp(0, -2 * u)) + math.log(2)
    expected = math.log(deviation) + 0.5 * math.log(2 * math.pi * math.e) + np.average(log_slope, weights=weights)
    raw = np.log(np.expm1(deviation - SquashedNormal.MIN_DEVIATION)) if deviation < 20 else deviation
    raw -= math.log(math.expm1(1 - SquashedNormal.MIN_DEVIATION))
    entropy = SquashedNormal((2.0,), (6.0,)).entropy(np.array([mean, raw], np.float32))
    assert float(entropy) == pytest.approx(expected, abs=0.05 if deviation > 10 else 5e-3)


def test_samples_lie_inside_and_have_the_moments_of_the_density():
    distribution = SquashedNormal(LOW, HIGH)
    drawn = distribution.sample(repeated(NORMAL), tf.constant([1, 2])).numpy()
    assert drawn.dtype == np.float32
    assert (drawn >= LOW).all()
    assert (drawn <= HIGH).all()
    u = np.arctanh((drawn - np.array([0.0, 2.5])) / np.array([1.0, 2.5]))
    deviation = np.log1p(np.exp(NORMAL[2:] + math.log(math.expm1(0.999)))) + 1e-3
    np.testing.assert_allclose(u.mean(axis=0), NORMAL[:2], atol=4 * deviation.max() / math.sqrt(MANY))
    np.testing.assert_allclose(u.std(axis=0), deviation, rtol=0.02)
    assert abs(np.corrcoef(u.T)[0, 1]) < 0.03
    estimate = -distribution.log_prob(repeated(NORMAL), drawn).numpy().mean()
    assert float(distribution.entropy(NORMAL)) == pytest.approx(estimate, abs=0.03)


@pytest.mark.parametrize("initial_deviation", [1.0, 0.694, 3.0])
def test_the_deviation_at_zero_is_a_setting(initial_deviation):
    distribution = distribution_of(ContinuousSpec((-1.0,), (1.0,)), initial_deviation)
    drawn = np.arctanh(distribution.sample(tf.zeros([MANY, 2]), tf.constant([1, 2])).numpy().clip(-0.999, 0.999))
    inside = np.abs(drawn) < 3  # further out samples are clipped
    assert np.std(drawn[inside]) == pytest.approx(initial_deviation, rel=0.02 if initial_deviation < 2 else 0.6)
    density = np.exp(float(distribution.log_prob([0.0, 0.0], [0.0])))
    assert density == pytest.approx(1 / (initial_deviation * math.sqrt(2 * math.pi)), rel=1e-4)


@pytest.mark.parametrize("mean", [-8.0, -1.0, 0.0, 3.0, 8.0])
@pytest.mark.parametrize("side", [-1, 1])
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
    parameters = tf.constant([[20.0, -20.0, 3.0, -30.0]] * 2)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        log_prob = distribution.log_prob(parameters, tf.constant([[1.0, 0.0], [-1.0, 5.0]]))
        entropy = distribution.entropy(parameters)
        total = tf.reduce_sum(log_prob) + tf.reduce_sum(entropy)
    gradient = tape.gradient(total, parameters)
    assert np.isfinite(log_prob).all()
    assert np.isfinite(entropy).all()
    assert np.isfinite(gradient).all()
    extreme = distribution.sample(parameters, tf.constant([0, 0])).numpy()
    assert ((extreme >= LOW) & (extreme <= HIGH)).all()


@pytest.mark.parametrize(
    ("low", "high"), [(2e38, 3e38), (-1.7e38, 1.7e38), (-1.2e-38, 1.2e-38), (1e6, 1e6 + 1)], ids=str
)
def test_every_range_that_a_spec_allows_gives_finite_numbers(low, high):
    spec = ContinuousSpec((float(np.float32(low)),), (float(np.float32(high)),))
    distribution = SquashedNormal(spec.low, spec.high)

    @tf.function(jit_compile=True, autograph=False)
    def numbers(parameters):
        actions = distribution.sample(parameters, tf.constant([1, 2]))
        log_prob = distribution.log_prob(parameters, actions)
        return actions, log_prob, distribution.entropy(parameters), distribution.features(actions)

    for tensor in numbers(tf.constant([[-0.5, 0.0], [9.0, 0.5]])):
        assert np.isfinite(tensor).all()


def test_features_of_continuous_actions_are_scaled():
    np.testing.assert_allclose(SquashedNormal(LOW, HIGH).features([[-1.0, 0.0], [0.5, 5.0]]), [[-1, -1], [0.5, 1]])


@pytest.mark.parametrize(
    "distribution",
    [Categorical(3), MultiCategorical((2, 3)), SquashedNormal(LOW, HIGH)],
    ids=lambda d: type(d).__name__,
)
@pytest.mark.parametrize("leading", [(), (2, 4)])
def test_shapes_plain_and_compiled(distribution, leading):
    parameters = np.random.default_rng(0).normal(size=(*leading, distribution.num_parameters)).astype(np.float32)

    def everything(parameters):
        actions = distribution.sample(parameters, tf.constant([5, 6]))
        return actions, distribution.log_prob(parameters, actions), distribution.entropy(parameters)

    for function in (everything, tf.function(everything, jit_compile=True, autograph=False)):
        actions, log_prob, entropy = function(tf.constant(parameters))
        assert actions.shape[: len(leading)] == leading
        assert log_prob.shape == entropy.shape == leading
        assert distribution.features(actions).shape[:-1] == leading


@pytest.mark.parametrize(
    "distribution",
    [Categorical(3), MultiCategorical((2, 3)), SquashedNormal(LOW, HIGH)],
    ids=lambda d: type(d).__name__,
)
def test_compiled_by_xla_the_same_seed_gives_the_same_actions(distribution):
    parameters = np.random.default_rng(0).normal(size=(10_000, distribution.num_parameters)).astype(np.float32)
    compiled = tf.function(distribution.sample, jit_compile=True, autograph=False)
    drawn = [sample(tf.constant(parameters), tf.constant([5, 6])).numpy() for sample in (distribution.sample, compiled)]
    np.testing.assert_allclose(*drawn, rtol=1e-5, atol=1e-5)


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match="parameters must have shape"):
        SquashedNormal(LOW, HIGH).entropy(np.zeros([2, 3]))
    with pytest.raises(ValueError, match="actions must have shape"):
        SquashedNormal(LOW, HIGH).log_prob(np.zeros([2, 4]), np.zeros([2, 1]))
    with pytest.raises(ValueError, match="actions must have shape"):
        MultiCategorical((2, 3)).log_prob(np.zeros([2, 5]), np.zeros([2, 3], np.int32))


def test_the_mode_of_choices_is_the_most_probable():
    logits = np.array([[0.5, -0.5, 1.0, 0.0, 2.0], [0.0, 3.0, 1.0, 1.0, 0.0]], np.float32)
    modes = Categorical(5).mode(logits)
    assert modes.dtype == tf.int32
    np.testing.assert_array_equal(modes, [4, 1])
    distribution = MultiCategorical((2, 3))
    np.testing.assert_array_equal(distribution.mode(logits), [[0, 2], [1, 0]])
    every = np.array([[a, b] for a in range(2) for b in range(3)], np.int32)
    for parameters, mode in zip(logits, distribution.mode(logits).numpy(), strict=True):
        most = distribution.log_prob(np.tile(parameters, (6, 1)), every).numpy().max()
        assert distribution.log_prob(parameters[None], mode[None]).numpy() == most


def test_the_mode_of_continuous_actions_has_half_of_the_samples_on_either_side():
    distribution = SquashedNormal(LOW, HIGH)
    mode = distribution.mode(NORMAL[None]).numpy()[0]
    np.testing.assert_allclose(mode, [np.tanh(0.4), 2.5 + 2.5 * np.tanh(-1.5)], rtol=1e-5)
    below = (distribution.sample(repeated(NORMAL), tf.constant([1, 2])).numpy() < mode).mean(axis=0)
    assert (np.abs(below - 0.5) < 4 * 0.5 / math.sqrt(MANY)).all()


def test_the_density_that_comes_with_a_sample_is_that_of_the_sample():
    distribution, seed = SquashedNormal(LOW, HIGH), tf.constant([3, 4])
    actions, log_prob = distribution.sample_and_log_prob(repeated(NORMAL), seed)
    np.testing.assert_array_equal(actions, distribution.sample(repeated(NORMAL), seed))
    inside = np.abs(distribution.features(actions)).max(axis=-1) < 0.99
    assert inside.mean() > 0.8
    np.testing.assert_allclose(log_prob[inside], distribution.log_prob(repeated(NORMAL), actions)[inside], atol=2e-3)
    far = tf.constant([[30.0, 0.0, -3.0, -3.0]])
    with tf.GradientTape() as tape:
        tape.watch(far)
        _, log_prob = distribution.sample_and_log_prob(far, seed)
    slope = tape.gradient(log_prob, far)[0, 0]
    assert float(slope) == pytest.approx(2.0), "the density of tanh(u) grows by e^2 for each unit of u, without a bound"


def test_the_bounds_of_clipped_actions_are_recognised_however_they_are_rounded():
    tenths = np.arange(-20, 21) / 10
    low, high = (bounds.ravel() for bounds in np.meshgrid(tenths, tenths))
    low, high = low[low < high], high[low < high]
    distribution = ClippedNormal(low, high)
    far = tf.concat([tf.fill([len(low)], 30.0), tf.zeros(len(low))], axis=0)
    assert float(distribution.log_prob(far, distribution.mode(far))) == pytest.approx(0.0, abs=1e-3)


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
