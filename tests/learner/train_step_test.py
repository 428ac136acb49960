"""Updates of two small variables against the optimizers' rules written out in numpy."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import LossOutput
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import CannotAct
from tests.support.quadratic_agent import LENGTH, QuadraticAgent, unroll_of

ADAM = {"name": "adam", "learning_rate": 0.05, "beta_1": 0.6, "beta_2": 0.8, "epsilon": 0.3}
RMSPROP = {"decay": 0.7, "momentum": 0.4}
TARGET = np.array([[0.0, 1.0], [2.0, 3.0], [-1.0, 1.0]])  # rewards [L, B], means 0.5, 2.5 and 0


def gradient_at(weights, reward=TARGET, importance=1.0):
    pull = np.mean(importance * (weights[:3, None] - reward), axis=1)
    return np.concatenate([pull, 2 * weights[3:]])


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
    """RMSProp with momentum, and epsilon inside the square root."""

    def __init__(self):
        self.v, self.velocity = 0.0, 0.0

    def step(self, gradient, learning_rate):
        self.v = RMSPROP["decay"] * self.v + (1 - RMSPROP["decay"]) * gradient**2
        change = learning_rate * gradient / np.sqrt(self.v + ADAM["epsilon"])
        self.velocity = RMSPROP["momentum"] * self.velocity + change
        return -self.velocity


def updated(train_step, reward, progress=0.0, importance=None, states=None, seed=0):
    weights = np.ones(reward.shape[1]) if importance is None else importance
    return train_step(unroll_of(reward, states), progress, weights, seed)


def test_each_loss_changes_its_own_group_by_its_own_optimizer():
    """Each loss depends on the other group's variable, too: a gradient that went astray would be seen."""
    agent = QuadraticAgent(two_groups=True, scalar_clip_norm=1.5)
    train_step = TrainStep(agent, Optimizer(**RMSPROP | ADAM, schedule="linear", clip_norm=130.0))
    of_vector, of_scalar = Adam(), RMSprop()
    rng, weights, clipped = np.random.default_rng(0), agent.numpy(), []
    for progress in (0.0, 0.25, 0.5, 0.75, 1.0):
        reward, importance = TARGET + rng.normal(size=TARGET.shape), rng.uniform(0.5, 1.5, 2)
        by_vector = (1 + 10 * weights[3]) * gradient_at(weights, reward, importance)[:3]
        by_scalar = 2 * weights[3] + weights[0]
        norms, rates = (np.linalg.norm(by_vector), abs(by_scalar)), (0.05 * (1 - progress), 0.02)
        expected = {
            "loss/pull": 0.5 * np.mean(importance * np.sum((weights[:3, None] - reward) ** 2, axis=0)),
            "a/shrink": weights[3] ** 2,
            "a/size": reward.size,
            "a/state": 0.0,
            "reward/max": reward.max(),
            "gradient_norm": norms[0],
            "gradient_to_clip": norms[0] / 130.0,
            "learning_rate": rates[0],
            "scalar/gradient_norm": norms[1],
            "scalar/gradient_to_clip": norms[1] / 1.5,
            "scalar/learning_rate": rates[1],
        }
        clipped.append(bool(norms[0] > 130.0))
        by_vector *= min(1.0, 130.0 / norms[0])
        by_scalar *= min(1.0, 1.5 / norms[1])
        weights = weights + np.append(of_vector.step(by_vector, rates[0]), of_scalar.step(by_scalar, rates[1]))
        metrics = updated(train_step, reward, progress, importance).metrics
        np.testing.assert_allclose(agent.numpy(), weights, rtol=1e-5)
        assert metrics == pytest.approx(expected, rel=1e-5)
        assert {type(value) for value in metrics.values()} == {float}
    assert set(clipped) == {True, False}, "some gradients are as long as they are"


@pytest.mark.parametrize(
    ("schedule", "start", "rates"),
    [
        ("constant", 0.0, (0.08, 0.08, 0.08, 0.08, 0.08)),
        ("linear", 0.0, (0.08, 0.06, 0.02, 0.0, 0.0)),
        ("linear", 0.5, (0.08, 0.08, 0.04, 0.0, 0.0)),
        ("cosine", 0.0, (0.08, 0.04 + 0.04 * math.cos(math.pi / 4), 0.04 - 0.04 * math.cos(math.pi / 4), 0.0, 0.0)),
        ("cosine", 0.25, (0.08, 0.08, 0.02, 0.0, 0.0)),
    ],
)
def test_the_schedule_sets_the_learning_rate(schedule, start, rates):
    settings = Optimizer(learning_rate=0.08, schedule=schedule, decay_start=start)
    assert [settings.learning_rate_at(progress) for progress in (0.0, 0.25, 0.75, 1.0, 1.2)] == pytest.approx(rates)


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_weights_decay_apart_from_the_gradient_and_biases_do_not(name):
    matrix, bias, scalar = (keras.Variable(np.full(shape, 2.0)) for shape in ((2, 3), (3,), ()))
    variables = [matrix, bias, scalar]
    optimizer = Optimizer(name=name, learning_rate=0.5, weight_decay=0.1).build(variables)
    optimizer.learning_rate.assign(0.25)
    optimizer.apply([tf.zeros(variable.shape) for variable in variables], variables)
    np.testing.assert_allclose(matrix, np.full((2, 3), 2.0 * (1 - 0.25 * 0.1)))
    np.testing.assert_array_equal(bias, np.full(3, 2.0))
    np.testing.assert_array_equal(scalar, 2.0)


SIZE = 6
STATES, IMPORTANCE = np.arange(1.0, SIZE + 1), np.linspace(0.3, 1.0, SIZE)
REWARDS = 0.3 * np.random.default_rng(0).normal(size=(LENGTH, SIZE))


def test_minibatches_of_unchanged_weights_sum_up_to_the_batch():
    """Sequence b adds 8^b to the loss, whose digits tell how often each sequence was used."""
    agent, rewards, passes, minibatches = QuadraticAgent(), REWARDS.copy(), 3, 3
    agent.variables[0].assign(np.zeros(LENGTH))
    rewards[0] = np.sqrt(2 * 8.0 ** np.arange(SIZE) / IMPORTANCE - np.sum(rewards[1:] ** 2, axis=0))
    train_step = TrainStep(agent, Optimizer(learning_rate=0.0), passes=passes, minibatches=minibatches)
    norms = set()
    for seed in range(4):
        metrics, priorities, steps, _ = updated(train_step, rewards, 0.0, IMPORTANCE, STATES, seed)
        assert steps == passes * minibatches
        total = round(metrics["loss/pull"] * passes * SIZE)
        assert [total // 8**b % 8 for b in range(SIZE)] == [passes] * SIZE, "once in every pass"
        assert metrics["a/size"] == LENGTH * SIZE / minibatches
        assert metrics["a/state"] == SIZE, "the maximum of all"
        assert metrics["reward/max"] == pytest.approx(rewards.max())
        assert priorities.dtype == np.float32
        np.testing.assert_allclose(priorities, STATES + 10 * rewards[1] + 100 * IMPORTANCE, rtol=1e-5)
        norms.add(round(metrics["gradient_norm"], 3))
    assert len(norms) > 1, "another seed draws other minibatches"


@pytest.mark.parametrize("minibatches", [1, 2])
def test_each_step_is_from_the_weights_after_the_one_before(minibatches):
    """All sequences are equal, so minibatches are too, and the loss falls with each step."""
    rewards = np.repeat(TARGET[:, :1], SIZE, axis=1)
    agent, twin, losses, norms = QuadraticAgent(), Adam(), [], []
    weights = [agent.numpy()]
    for _ in range(4 * minibatches):
        gradient = gradient_at(weights[-1], rewards)
        losses.append(0.5 * np.sum((weights[-1][:3] - rewards[:, 0]) ** 2))
        norms.append(np.linalg.norm(gradient))
        weights.append(weights[-1] + twin.step(gradient, 0.05))
    assert sorted(losses, reverse=True) == losses
    update = updated(TrainStep(agent, Optimizer(**ADAM), passes=4, minibatches=minibatches), rewards)
    assert (update.optimizer_steps, update.left_out) == (4 * minibatches, 0)
    np.testing.assert_allclose(agent.numpy(), weights[-1], rtol=1e-5)
    assert update.metrics["loss/pull"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert update.metrics["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-5)


def test_statistics_move_once_a_batch_before_its_gradients_and_see_the_first_one_twice():
    class WithMean(QuadraticAgent):
        def __init__(self):
            super().__init__()
            self.mean, self.steps = (keras.Variable(0.0, trainable=False, dtype="float32") for _ in range(2))

        def moments(self, unroll):
            mean = tf.reduce_mean(unroll.env_output.reward)
            return {"mean": tf.stack([mean, 0.0]), "all finite": tf.zeros([2])}

        def update_statistics(self, moments, steps):
            self.mean.assign(self.mean.value + moments["mean"][0])
            self.steps.assign(self.steps.value + steps)

        def loss(self, unroll, importance_weights, seed=(0, 0)):
            return LossOutput(super().loss(unroll, importance_weights).losses, {"mean": self.mean.value})

    agent = WithMean()
    train_step = TrainStep(agent, Optimizer(), passes=2, minibatches=3)
    size = agent.unroll_length * SIZE
    for shown in (2, 3):
        update = updated(train_step, REWARDS)
        assert update.metrics["mean"] == pytest.approx(shown * REWARDS.mean(), rel=1e-5), "in each step of the batch"
        assert float(agent.steps.value) == shown * size
    assert set(update.metrics) == {"mean", "gradient_norm", "learning_rate"}
    assert update.priorities.size == 0, "of an agent that gives none"
    assert updated(train_step, REWARDS + np.inf).optimizer_steps == 0
    assert float(agent.mean.value) == pytest.approx(3 * REWARDS.mean(), rel=1e-5), "not by what isn't finite"


STRAY = keras.Variable([1.0], dtype="float32", name="stray")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda out: out.losses["both"], r"the losses {'both': 'float32\[\]'}, got a \w*Tensor with float32\[\]$"),
        (lambda out: dict(out.losses), r"got a dict with {'both': 'float32\[\]'}$"),
        (lambda out: out._replace(losses={}), "got a LossOutput with {}$"),
        (lambda out: out._replace(losses=out.losses | {"more": 0.0}), "'more': '0.0'}$"),
        (lambda out: out._replace(losses={"both": out.losses["both"] * tf.ones([2])}), r"{'both': 'float32\[2\]'}$"),
        (lambda out: out._replace(priorities=tf.ones([3])), r"priorities float32\[6\] or \(\), got float32\[3\]$"),
        (lambda out: out._replace(losses={"both": tf.zeros([])}), "'both' of QuadraticAgent depends on no variable"),
        (
            lambda out: out._replace(losses={"both": out.losses["both"] * STRAY.value[0]}),
            r"QuadraticAgent.variables lacks stray:0 \(1,\), which its loss",
        ),
    ],
)
def test_losses_that_would_train_something_else_are_refused(made, sentence, monkeypatch):
    loss = QuadraticAgent.loss
    monkeypatch.setattr(QuadraticAgent, "loss", lambda *arguments: made(loss(*arguments)))
    with pytest.raises(CannotAct, match=sentence):
        updated(TrainStep(QuadraticAgent(), Optimizer()), REWARDS)


def state_of(agent, train_step):
    return [agent.numpy(), *(variable.numpy() for variable in train_step.variables.values())]


def test_a_warm_up_changes_nothing_and_leaves_nothing_to_compile(monkeypatch):
    agent = QuadraticAgent(two_groups=True)
    train_step = TrainStep(agent, Optimizer(**ADAM), minibatches=3)
    before = state_of(agent, train_step)
    train_step.warm_up(unroll_of(REWARDS), SIZE)
    np.testing.assert_equal(state_of(agent, train_step), before)
    monkeypatch.setattr(agent, "loss", None)  # which only a trace would call
    assert updated(train_step, REWARDS).optimizer_steps == 3


@pytest.mark.parametrize(("two_groups", "minibatches"), [(True, 1), (False, 3)])
def test_a_step_whose_gradients_are_not_finite_changes_nothing(two_groups, minibatches):
    agent = QuadraticAgent(two_groups)
    train_step = TrainStep(agent, Optimizer(**ADAM), minibatches=minibatches)
    assert updated(train_step, REWARDS).left_out == 0
    before, iterations = state_of(agent, train_step), minibatches
    for value in (np.inf, np.nan, 1e30):  # the square of the last one, and so the norm, overflows
        rewards = REWARDS.copy()
        rewards[0, 4] = value
        metrics, _, steps, left_out = updated(train_step, rewards, progress=0.5)
        assert (steps, left_out) == (minibatches - 1, 1)
        iterations += minibatches - 1
        steps = [int(v) for name, v in train_step.variables.items() if name.endswith("iteration")]
        assert steps == [iterations] * (1 + two_groups)
        if minibatches == 1:
            assert metrics == {}
            np.testing.assert_equal(state_of(agent, train_step), before)
        else:
            assert np.isfinite([*metrics.values(), *agent.numpy()]).all(), "the other minibatches are used"
