"""Updates of two small variables against the optimizers' rules written out in numpy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import Agent, LossOutput
from seed_rl.experiment import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.types import EnvOutput, Unroll

ADAM = {"name": "adam", "learning_rate": 0.05, "beta_1": 0.6, "beta_2": 0.8, "epsilon": 0.3}
RMSPROP = {"name": "rmsprop", "learning_rate": 0.05, "decay": 0.7, "momentum": 0.4, "epsilon": 0.3}


class Quadratic(Agent):
    """Pulls a vector towards the rewards of an unroll's steps, and a scalar towards zero."""

    unroll_length, overlap, behaviour_spec = 2, 1, ()

    def __init__(self):
        self._vector = keras.Variable([1.0, -2.0, 0.5], dtype="float32", name="vector")
        self._scalar = keras.Variable(3.0, dtype="float32", name="scalar")

    @property
    def variables(self):
        return [self._vector, self._scalar]

    trainable_variables = variables

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env_output, state, env_ids, seed):
        raise NotImplementedError

    def loss(self, unroll, importance_weights=None):
        pull = 0.5 * tf.reduce_sum(tf.square(self._vector - tf.reduce_mean(unroll.env_output.reward, axis=1)))
        shrink = tf.square(self._scalar.value)
        # Named against the order of the alphabet, and not all of one dtype.
        metrics = {
            "loss/total": pull + shrink,
            "a/shrink": shrink,
            "loss/pull": pull,
            "a/steps": tf.size(unroll.action),
        }
        return LossOutput(pull + shrink, metrics)

    def numpy(self):
        """The variables as one float64 [4]."""
        return np.concatenate([self._vector.numpy(), [self._scalar.numpy()]]).astype(np.float64)


TARGET = np.array([[0.0, 1.0], [2.0, 3.0], [-1.0, 1.0]])  # rewards [L, B], means 0.5, 2.5 and 0


def unroll_of(reward=TARGET):
    zeros = tf.zeros(reward.shape, tf.int32)
    env_output = EnvOutput(tf.constant(reward, tf.float32), tf.zeros(reward.shape, tf.bool), ())
    return Unroll((), zeros, env_output, zeros, ())


def gradient_at(weights, reward=TARGET):
    return np.concatenate([weights[:3] - reward.mean(axis=1), 2 * weights[3:]])


class Adam:
    """The rule of the paper's section 2, where the learning rate takes both corrections of the bias."""

    def __init__(self):
        self.m, self.v, self.t = 0.0, 0.0, 0

    def step(self, gradient, learning_rate):
        beta_1, beta_2 = ADAM["beta_1"], ADAM["beta_2"]
        self.t += 1
        self.m = beta_1 * self.m + (1 - beta_1) * gradient
        self.v = beta_2 * self.v + (1 - beta_2) * gradient**2
        corrected = learning_rate * np.sqrt(1 - beta_2**self.t) / (1 - beta_1**self.t)
        return -corrected * self.m / (np.sqrt(self.v) + ADAM["epsilon"])


class RMSprop:
    """With momentum, and epsilon under the root."""

    def __init__(self):
        self.v, self.velocity = 0.0, 0.0

    def step(self, gradient, learning_rate):
        self.v = RMSPROP["decay"] * self.v + (1 - RMSPROP["decay"]) * gradient**2
        self.velocity = RMSPROP["momentum"] * self.velocity + learning_rate * gradient / np.sqrt(
            self.v + RMSPROP["epsilon"]
        )
        return -self.velocity


@pytest.fixture(params=[(ADAM, Adam), (RMSPROP, RMSprop)], ids=["adam", "rmsprop"])
def rule(request):
    return request.param


def test_one_update_equals_the_closed_form(rule):
    settings, twin = rule
    agent = Quadratic()
    before = agent.numpy()
    gradient = gradient_at(before)
    np.testing.assert_allclose(gradient, [0.5, -4.5, 0.5, 6.0])
    if settings is ADAM:  # the corrections of the bias make m = g and v = g^2; epsilon is corrected, too
        change = -0.05 * gradient / (np.abs(gradient) + 0.3 / np.sqrt(0.2))
    else:
        change = -0.05 * gradient / np.sqrt(0.3 * gradient**2 + 0.3)
    np.testing.assert_allclose(twin().step(gradient, 0.05), change, rtol=1e-12)
    TrainStep(agent, Optimizer(**settings))(unroll_of(), 0.0)
    np.testing.assert_allclose(agent.numpy() - before, change, rtol=1e-5)


@pytest.mark.parametrize("clip_norm", [0.0, 1.5, 100.0])
def test_updates_follow_the_rule_with_clipped_gradients_and_a_falling_rate(rule, clip_norm):
    settings, make_twin = rule
    agent, twin = Quadratic(), make_twin()
    train_step = TrainStep(agent, Optimizer(**settings, schedule="linear", clip_norm=clip_norm))
    rng = np.random.default_rng(0)
    weights = agent.numpy()
    for progress in (0.0, 0.25, 0.5, 0.75):
        reward = TARGET + rng.normal(size=TARGET.shape)
        gradient = gradient_at(weights, reward)
        norm = np.linalg.norm(gradient)
        assert 1.5 < norm < 100, "the smaller bound clips, the larger does not"
        scale = min(1.0, clip_norm / norm) if clip_norm else 1.0
        weights = weights + twin.step(scale * gradient, 0.05 * (1 - progress))
        metrics = train_step(unroll_of(reward), progress).metrics
        np.testing.assert_allclose(agent.numpy(), weights, rtol=1e-5)
        assert metrics["gradient_norm"] == pytest.approx(norm, rel=1e-5), "the norm before clipping"


@pytest.mark.parametrize(
    ("schedule", "rates"), [("constant", (0.05, 0.05, 0.05, 0.05)), ("linear", (0.05, 0.025, 0.0, 0.0))]
)
def test_the_schedule_sets_the_learning_rate(rule, schedule, rates):
    agent = Quadratic()
    train_step = TrainStep(agent, Optimizer(**(rule[0] | {"momentum": 0.0}), schedule=schedule))
    for progress, rate in zip((0.0, 0.5, 1.0, 1.2), rates, strict=True):
        before = agent.numpy()
        assert train_step(unroll_of(), progress).metrics["learning_rate"] == pytest.approx(rate, abs=1e-9)
        assert np.array_equal(agent.numpy(), before) == (rate == 0)


def test_metrics_come_back_as_floats_under_their_names():
    agent = Quadratic()
    train_step = TrainStep(agent, Optimizer(**ADAM))
    for width in (2, 5):  # the second batch is of another shape, for which the update is traced anew
        weights, reward = agent.numpy(), np.repeat(TARGET[:, :1], width, axis=1)
        pull, shrink = 0.5 * np.sum((weights[:3] - reward[:, 0]) ** 2), weights[3] ** 2
        metrics = train_step(unroll_of(reward), 0.0).metrics
        expected = {
            "loss/total": pull + shrink,
            "a/shrink": shrink,
            "loss/pull": pull,
            "a/steps": 3 * width,
            "gradient_norm": np.linalg.norm(gradient_at(weights, reward)),
            "learning_rate": 0.05,
        }
        assert metrics == pytest.approx(expected, rel=1e-5)
        assert {type(value) for value in metrics.values()} == {float}


def test_the_optimizer_is_built_before_the_first_update(rule):
    """A checkpoint is put back into its variables then."""
    agent = Quadratic()
    train_step = TrainStep(agent, Optimizer(**rule[0]))
    paths = [variable.path for variable in train_step.optimizer.variables]
    assert sum("vector" in path for path in paths) == sum("scalar" in path for path in paths) == 2
    train_step(unroll_of(), 0.0)
    assert [variable.path for variable in train_step.optimizer.variables] == paths
    assert int(train_step.optimizer.iterations) == 1
