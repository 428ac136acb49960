"""An agent of one's own: PPO's clipped objective (arXiv:1707.06347) on the unrolls that central inference brings.

    PYTHONPATH=examples seed_rl train --gin_file=examples/custom_agent.gin

An agent is a configuration that builds it, a network that acts, and a loss. Transport, batching, recurrent states,
unrolls, updates, checkpoints, metrics, evaluation and films are the library's.
"""

from __future__ import annotations

import dataclasses

import gin
import keras
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent, LossOutput, blank_step
from seed_rl.agents.config import TrunkConfig
from seed_rl.agents.trunk import build_trunk
from seed_rl.rl.distributions import distribution_of
from seed_rl.rl.vtrace import vtrace
from seed_rl.settings import check_at_least, check_range
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput, Unroll


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PPO(TrunkConfig):
    """Settings; those of the torso, the LSTM and the frame stack are inherited."""

    discount: float = 0.99
    lambda_: float = 0.95
    """Of generalised advantage estimation."""
    clip: float = 0.2
    """The ratio of new to old probabilities counts within [1 - clip, 1 + clip]."""
    baseline_cost: float = 0.5
    entropy_cost: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        check_range(self, 0, 1, "discount", "lambda_", "clip")
        check_at_least(self, 0, "baseline_cost", "entropy_cost")

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> Agent:
        """See `AgentConfig.build`."""
        return PPOAgent(self, env_spec, seed)


class PPOAgent(Agent):
    """Samples from its policy, and stores the log-probability of what it did with each step."""

    overlap = 1  # the last step of an unroll is the first of the next: its value bootstraps
    behaviour_spec = tf.TensorSpec([], tf.float32)

    def __init__(self, config: PPO, env_spec: EnvSpec, seed: int):
        keras.utils.set_random_seed(seed)
        self.unroll_length = config.unroll_length
        self._config = config
        self._actions = distribution_of(env_spec.action)
        self._trunk = build_trunk(config, env_spec, clip_reward_input=True)
        self._policy = keras.layers.Dense(self._actions.num_parameters, dtype="float32", name="policy")
        self._baseline = keras.layers.Dense(1, dtype="float32", name="baseline")
        self._network(*blank_step(env_spec), self.initial_state(1))  # creates the weights

    def _network(self, prev_action, env_output, state):
        """Parameters of the policy [T, B, P], baselines [T, B], and the state after the last step."""
        features, state = self._trunk(prev_action, env_output, state)
        return self._policy(features), tf.squeeze(self._baseline(features), -1), state

    @property
    def trainable_variables(self):
        """Of the trunk and both heads."""
        return [v for layer in (self._trunk, self._policy, self._baseline) for v in layer.trainable_variables]

    @property
    def variables(self):
        """The same: nothing else is to be saved."""
        return self.trainable_variables

    def initial_state(self, batch_size: int):
        """Of the trunk: frame stacks and LSTM."""
        return self._trunk.initial_state(batch_size)

    def act(self, prev_action, env_output: EnvOutput, state, env_ids, seed, greedy: bool = False) -> ActOutput:
        """One step of B environments, which the network sees as T = 1."""
        one_step = tf.nest.map_structure(lambda t: t[None], env_output)
        policy, _, state = self._network(prev_action[None], one_step, state)
        action = self._actions.mode(policy[0]) if greedy else self._actions.sample(policy[0], seed)
        return ActOutput(action, self._actions.log_prob(policy[0], action), state)

    def loss(self, unroll: Unroll, importance_weights=None) -> LossOutput:
        """Of T + 1 steps: action t leads to the reward of step t + 1."""
        config = self._config
        policy, baseline, _ = self._network(unroll.prev_action, unroll.env_output, unroll.initial_state)
        reward = unroll.env_output.reward[1:]
        discount = config.discount * (1.0 - tf.cast(unroll.env_output.done[1:], tf.float32))
        log_ratios = tf.zeros_like(reward)  # with which V-trace gives the lambda-returns
        targets = vtrace(log_ratios, discount, reward, baseline[:-1], baseline[-1], lambda_=config.lambda_).vs
        advantage = tf.stop_gradient(targets - baseline[:-1])
        advantage /= tf.math.reduce_std(advantage) + 1e-6

        ratio = tf.exp(self._actions.log_prob(policy[:-1], unroll.action[:-1]) - unroll.behaviour[:-1])
        clipped = tf.clip_by_value(ratio, 1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
        baseline_loss = config.baseline_cost * tf.reduce_mean(tf.square(tf.stop_gradient(targets) - baseline[:-1]))
        entropy = tf.reduce_mean(self._actions.entropy(policy[:-1]))
        total = policy_loss + baseline_loss - config.entropy_cost * entropy
        return LossOutput(
            total,
            {
                "loss/total": total,
                "loss/policy": policy_loss,
                "loss/baseline": baseline_loss,
                "policy/entropy": entropy,
                "policy/clipped": tf.reduce_mean(tf.cast(tf.abs(ratio - 1.0) > config.clip, tf.float32)),
            },
        )
