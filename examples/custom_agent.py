"""A custom agent: PPO's clipped objective (arXiv:1707.06347) on unrolls from central inference.

    PYTHONPATH=examples seed_rl train --gin_file=examples/custom_agent.gin

An agent is a configuration that builds it, a network that acts, and a loss. Transport, batching, recurrent states,
unrolls, passes over minibatches, checkpoints, metrics, evaluation and films are the library's.
"""

import dataclasses
from typing import Any, ClassVar

import gin
import keras
import tensorflow as tf

from seed_rl.api import (
    AgentConfig,
    EnvSpec,
    LossOutput,
    ModelAgent,
    NonNegative,
    Trunk,
    TrunkConfig,
    TrunkModel,
    UnitInterval,
    Unroll,
    distribution_of,
    mask_illegal,
    transitions_of,
    vtrace,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class SimplePPO(TrunkConfig, AgentConfig):
    """Settings; torso, recurrent core and frame stack are inherited."""

    agent_class: ClassVar[str] = "custom_agent:SimplePPOAgent"
    clip_reward_input: bool = True
    lambda_: UnitInterval = 0.95
    """Lambda of generalised advantage estimation."""
    clip: UnitInterval = 0.2
    """The ratio of new to old probabilities is clipped to [1 - clip, 1 + clip]."""
    baseline_cost: NonNegative = 0.5
    entropy_cost: NonNegative = 0.01


class ActorCritic(TrunkModel):
    """Parameters of the policy [T, B, P] and baselines [T, B]."""

    def __init__(self, trunk: Trunk, num_parameters: int):
        super().__init__(trunk, name="actor_critic")
        self._policy = keras.layers.Dense(num_parameters, dtype="float32", name="policy")
        self._baseline = keras.layers.Dense(1, dtype="float32", name="baseline")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Logits, of legal actions only, and value of features [T, B, F]."""
        return mask_illegal(self._policy(features), legal), tf.squeeze(self._baseline(features), -1)


class SimplePPOAgent(ModelAgent):
    """Samples from its policy, and stores the log-probability of each action."""

    behaviour_spec = tf.TensorSpec([], tf.float32)

    def __init__(self, config: SimplePPO, env_spec: EnvSpec, num_training_envs: int):
        self._config = config
        self._actions = distribution_of(env_spec.action)
        network = ActorCritic(Trunk(config, env_spec), self._actions.num_parameters)
        super().__init__(network, env_spec, config.unroll_length)

    def decide(self, outputs: Any, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """The action, and its log-probability as the record of the decision."""
        policy, _ = outputs
        action = self._actions.mode(policy) if greedy else self._actions.sample(policy, seed)
        return action, self._actions.log_prob(policy, action)

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        """Compute the loss of T + 1 steps: action t leads to the reward of step t + 1."""
        config = self._config
        (policy, baseline), _ = self.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
        r_t, discount_t, last_t = transitions_of(unroll.env_output, config)
        targets = vtrace(
            tf.zeros_like(r_t),  # on-policy, V-trace gives the lambda-returns
            discount_t,
            r_t,
            baseline[:-1],
            baseline[-1],
            last_t=last_t,
            lambda_=config.lambda_,
        ).vs
        advantage = tf.stop_gradient(targets - baseline[:-1])
        advantage /= tf.math.reduce_std(advantage) + 1e-6

        ratio = tf.exp(self._actions.log_prob(policy[:-1], unroll.action[:-1]) - unroll.behaviour[:-1])
        clipped = tf.clip_by_value(ratio, 1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
        baseline_loss = config.baseline_cost * tf.reduce_mean(tf.square(tf.stop_gradient(targets) - baseline[:-1]))
        entropy = tf.reduce_mean(self._actions.entropy(policy[:-1]))
        total = policy_loss + baseline_loss - config.entropy_cost * entropy
        return LossOutput(
            {"model": total},
            {
                "loss/total": total,
                "loss/policy": policy_loss,
                "loss/baseline": baseline_loss,
                "policy/entropy": entropy,
                "policy/clipped": tf.reduce_mean(tf.cast(tf.abs(ratio - 1.0) > config.clip, tf.float32)),
            },
        )
