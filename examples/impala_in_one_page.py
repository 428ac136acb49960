"""IMPALA (arXiv:1802.01561) on one page: V-trace learns Catch, in one process.

    python examples/impala_in_one_page.py

It has the parts of a whole run, in the order in which data flows through them: environments, a network that acts for
all of them at once, unrolls, the V-trace loss, and an optimizer. What the library adds is processes, a wire, devices,
and an answer to whatever goes wrong with these.

Shapes: T steps per unroll, B environments, A actions, H x W pixels.
"""

from typing import NamedTuple

import numpy as np

from seed_rl.api import ActionDistribution, EnvConfig, distribution_of, load_experiment, vtrace

import tensorflow as tf  # isort: skip  # after `seed_rl.api`, which loads it silently
import keras  # isort: skip

ENVIRONMENTS, STEPS = 32, 20  # B, T
DISCOUNT, ENTROPY_COST, BASELINE_COST, LEARNING_RATE = 0.99, 0.01, 0.5, 3e-3


class Unroll(NamedTuple):
    """What B environments and the policy did in T steps."""

    observation: np.ndarray
    """uint8 [T + 1, B, H, W, 1]: x_t, with the one to bootstrap from."""
    logits: np.ndarray
    """float32 [T, B, A]: parameters of the policy mu that acted."""
    action: np.ndarray
    """int32 [T, B]: a_t, chosen in x_t."""
    reward: np.ndarray
    """float32 [T, B]: r_t, to which a_t led."""
    discount: np.ndarray
    """float32 [T, B]: gamma, zero where a_t ended the episode."""


class Network(keras.Model):
    """A dense layer below a policy and a value."""

    def __init__(self, num_actions: int):
        super().__init__()
        self._torso = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(64, activation="relu")])
        self._policy = keras.layers.Dense(num_actions, kernel_initializer=keras.initializers.VarianceScaling(1e-4))
        self._value = keras.layers.Dense(1, kernel_initializer="zeros")

    def call(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps observations [N, H, W, 1] to logits [N, A] and values [N]."""
        features = self._torso(tf.cast(observation, tf.float32) / 255.0)
        return self._policy(features), self._value(features)[:, 0]


class Actor:
    """Steps B environments with one call of the network per step: central inference."""

    def __init__(self, env: EnvConfig, network: Network, actions: ActionDistribution):
        self._environments = env.make(ENVIRONMENTS)
        self._network, self._actions = network, actions
        self._observation, _ = self._environments.reset(seed=1)
        self._random = np.random.default_rng(1)
        self._returns = np.zeros(ENVIRONMENTS)
        self.finished: list[float] = []
        """Returns of the episodes that have ended."""

    @tf.function
    def _act(self, observation: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits, _ = self._network(observation)
        return self._actions.sample(logits, seed), logits

    def unroll(self) -> Unroll:
        """Act for T steps."""
        observations, steps = [self._observation], []
        for _ in range(STEPS):
            seed = self._random.integers(2**31, size=2, dtype=np.int32)
            action, logits = (tensor.numpy() for tensor in self._act(self._observation, seed))
            self._observation, reward, terminated, truncated, _ = self._environments.step(action)
            observations.append(self._observation)  # where an episode has ended, the first of the next one
            over = terminated | truncated
            steps.append((logits, action, reward.astype(np.float32), np.where(over, 0, DISCOUNT).astype(np.float32)))
            self._returns += reward
            self.finished += self._returns[over].tolist()
            self._returns[over] = 0.0
        return Unroll(np.stack(observations), *map(np.stack, zip(*steps, strict=True)))


class Learner:
    """Updates the network from unrolls of an older policy."""

    def __init__(self, network: Network, actions: ActionDistribution):
        self._network, self._actions = network, actions
        self._optimizer = keras.optimizers.Adam(LEARNING_RATE)

    @tf.function
    def update(self, unroll: Unroll) -> tf.Tensor:
        """Take an optimizer step; return the loss, float32 []."""
        with tf.GradientTape() as tape:
            loss = self._loss(unroll)
        variables = self._network.trainable_variables
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def _loss(self, unroll: Unroll) -> tf.Tensor:
        frames = tf.reshape(unroll.observation, [-1, *unroll.observation.shape[2:]])
        logits, values = self._network(frames)
        logits = tf.reshape(logits, [STEPS + 1, ENVIRONMENTS, -1])[:-1]  # of pi, the policy that learns
        values = tf.reshape(values, [STEPS + 1, ENVIRONMENTS])
        log_pi, log_mu = (self._actions.log_prob(each, unroll.action) for each in (logits, unroll.logits))
        # No gradient flows through targets and advantages.
        returns = vtrace(log_pi - log_mu, unroll.discount, unroll.reward, values[:-1], values[-1])
        policy_loss = -tf.reduce_mean(returns.pg_advantages * log_pi)
        baseline_loss = 0.5 * tf.reduce_mean(tf.square(returns.vs - values[:-1]))
        entropy = tf.reduce_mean(self._actions.entropy(logits))
        return policy_loss + BASELINE_COST * baseline_loss - ENTROPY_COST * entropy


def main(updates: int = 400) -> float:
    """Train, print the progress, and return the mean return of the last 100 episodes; the best possible one is 1."""
    keras.utils.set_random_seed(1)
    env = load_experiment(["catch/vtrace"]).env
    actions = distribution_of(env.spec().action)
    network = Network(actions.num_parameters)
    actor, learner = Actor(env, network, actions), Learner(network, actions)
    waiting = actor.unroll()
    for update in range(1, updates + 1):
        # Acting is an unroll ahead, as in a run of many processes: V-trace corrects for a policy that is an update old.
        batch, waiting = waiting, actor.unroll()
        loss = learner.update(tf.nest.map_structure(tf.constant, batch))
        if update % 50 == 0:
            frames, mean = update * STEPS * ENVIRONMENTS, np.mean(actor.finished[-100:])
            print(f"{frames:8,} frames  return {mean:5.2f}  loss {loss.numpy():7.4f}")
    return float(np.mean(actor.finished[-100:]))


if __name__ == "__main__":
    main()
