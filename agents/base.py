"""What the learner and central inference need of an agent.

The life of an agent, as its owner drives it:

    agent = config.build(env_spec, num_training_envs, seed)
    state = agent.initial_state(batch)                        # per environment, kept on the device
    output = agent.act(prev_action, env_output, state, ...)   # in a compiled step, at every inference batch
    output = agent.loss(unroll, importance_weights)           # differentiated, at every learner update
    agent.after_update(learner_updates)                       # once the weights have changed

An agent owns networks and a loss. It owns no loop, server, flag, optimizer or checkpoint.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput, Unroll


def blank_step(env_spec: EnvSpec) -> tuple[tf.Tensor, EnvOutput]:
    """A previous action and an output [T = 1, B = 1, ...] of zeros, to create a network's weights with."""
    action = env_spec.action.tensor
    tensors = {name: tf.zeros([1, 1, *spec.shape], spec.dtype) for name, spec in env_spec.observation_tensors()}
    observation: Any = tensors.get("", tensors)
    return tf.zeros([1, 1, *action.shape], action.dtype), EnvOutput(
        tf.zeros([1, 1]), tf.ones([1, 1], tf.bool), observation
    )


class ActOutput(NamedTuple):
    """An agent's answer to B observations."""

    action: tf.Tensor
    """[B, ...], as the environments' spec says"""
    behaviour: Any
    """Nest of tensors [B, ...] to be stored with the step; matches `Agent.behaviour_spec`."""
    state: Any
    """Nest [B, ...]: the recurrent state after this step."""


class LossOutput(NamedTuple):
    """The loss of a batch of unrolls."""

    loss: tf.Tensor
    """float32 scalar, to be minimised."""
    metrics: Mapping[str, tf.Tensor]
    """float32 scalars for the logs. Where several devices have parts of the batch the mean over them is logged, and the
    maximum of those whose last name begins with `max_`."""
    priorities: tf.Tensor | None = None
    """float32 [B]: how much each sequence is still to be learned from; of a `ReplayAgent` only."""


class Agent(abc.ABC):
    """A policy that acts on batches of environments and a loss that improves it from unrolls."""

    unroll_length: int
    """T: steps that an unroll adds to what the learner has seen."""
    overlap: int
    """Steps that an unroll repeats from the previous one of its environment, at least 1."""
    behaviour_spec: Any
    """Nest of `tf.TensorSpec` of what `act` wants stored with each step, without batch axis."""

    @property
    @abc.abstractmethod
    def variables(self) -> Sequence[Any]:
        """Every Keras variable that a checkpoint must hold, in a fixed order."""

    @property
    @abc.abstractmethod
    def trainable_variables(self) -> Sequence[Any]:
        """The Keras variables that gradients are taken of."""

    @abc.abstractmethod
    def initial_state(self, batch_size: int) -> Any:
        """The recurrent state at the start of an episode: nest of tensors [batch_size, ...]."""

    @abc.abstractmethod
    def act(
        self,
        prev_action: tf.Tensor,
        env_output: EnvOutput,
        state: Any,
        env_ids: tf.Tensor,
        seed: tf.Tensor,
        greedy: bool = False,
    ) -> ActOutput:
        """Chooses actions; pure but for reading the weights, and compilable with static shapes.

        Args:
          prev_action: [B, ...].
          env_output: fields [B, ...]; the agent resets `state` where `done`.
          state: nest [B, ...].
          env_ids: int32 [B], which environments these are; from `num_training_envs` on, the evaluation environments
            and the padding of the batch.
          seed: int32 [2], different at each call; the only source of randomness.
          greedy: take the action that is thought best, without exploring; to evaluate, not to learn from.
        """

    @abc.abstractmethod
    def loss(self, unroll: Unroll, importance_weights: tf.Tensor | None = None) -> LossOutput:
        """The loss of time-major unrolls [L, B, ...], L = unroll_length + overlap.

        Args:
          unroll: what was experienced.
          importance_weights: float32 [B], of sequences from a replay; None where unrolls come straight from acting.
        """

    def after_update(self, learner_updates: int) -> None:  # noqa: B027 (most agents have nothing to do)
        """Called when update number `learner_updates` (from 1) has been applied."""

    @property
    def model(self) -> Any:
        """The Keras model that acts, whose weights are exported; None if there is none."""
        return None

    @property
    def length(self) -> int:
        """L: steps stored per unroll."""
        return self.unroll_length + self.overlap


class ReplayAgent(Agent):
    """An agent whose unrolls go through a prioritized replay; its loss returns the priorities to write back."""

    @abc.abstractmethod
    def initial_priorities(self, unroll: Unroll) -> tf.Tensor:
        """The priorities that unrolls enter the replay with: float32 [B].

        Computed from what was stored while acting; the network does not run again.

        Args:
          unroll: time-major [L, B, ...], with `initial_state` and `env_output.observation` left out: ().
        """
