"""The interface between an agent and the rest of the library.

The learner calls an agent in this order:

    agent = config.build(env_spec, num_training_envs, seed)
    state = agent.initial_state(batch)                        # per environment, kept on the device
    output = agent.act(prev_action, env_output, state, ...)   # in a compiled step, for every inference batch
    agent.update_statistics(agent.moments(unroll), steps)     # once per learner batch
    unroll = unroll._replace(targets=agent.targets(unroll))   # after that, with the weights before the first pass
    output = agent.loss(unroll, importance_weights, seed)     # differentiated, for every optimizer step
    agent.after_update(learner_updates)                       # after the weights have changed

An agent consists of networks and losses. It has no loop, server, flag, optimizer or checkpoint.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.experiment.optimizer import Optimizer
from seed_rl.specs import ArraySpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll


class ActOutput(NamedTuple):
    """An agent's answer to B observations."""

    action: tf.Tensor
    """[B, ...]: the actions, in the format of `EnvSpec.action`."""
    behaviour: Any
    """Nest of tensors [B, ...] to store with the step; matches `Agent.behaviour_spec`."""
    state: Any
    """Nest [B, ...]: the recurrent state after this step."""


class LossOutput(NamedTuple):
    """The losses of a batch of unrolls."""

    losses: Mapping[str, tf.Tensor]
    """float32 scalars, keyed by group in `Agent.groups`; each is minimised over the variables of its group."""
    metrics: Mapping[str, tf.Tensor]
    """float32 scalars to log, averaged over training devices, minibatches and updates."""
    maxima: Mapping[str, tf.Tensor] = {}
    """float32 scalars to log, reduced by the maximum over training devices and minibatches."""
    priorities: tf.Tensor | tuple[()] = ()
    """float32 [B]: new replay priorities of the sequences; () if the agent does not use a replay."""


class VariableGroup(NamedTuple):
    """Variables that share a loss and an optimizer."""

    variables: Sequence[Any]
    """Keras variables."""
    optimizer: Callable[[Optimizer], Optimizer] = lambda own: own
    """Maps the experiment's optimizer settings to the group's; by default they are the same."""


class Agent(abc.ABC):
    """A policy that acts on batches of environments, and losses that improve it from unrolls."""

    env_spec: EnvSpec
    """Observations and actions of the environments."""
    unroll_length: int
    """T: steps of new experience in each unroll."""
    overlap: int = 1
    """Steps that an unroll shares with the previous one of its environment, at least 1."""
    behaviour_spec: Any = ()
    """Nest of `tf.TensorSpec` that describes `ActOutput.behaviour`, without batch axis."""
    initial_priorities: Callable[[Unroll], tf.Tensor] | None = None
    """Method that returns the priorities, float32 [B], with which unrolls [L, B, ...] enter a replay, from the stored
    behaviour: `initial_state` and `env_output.observation` are (). None: they enter with the largest one in it."""
    model: Any = None
    """The Keras model that acts and whose weights are exported; None if there is none."""
    history: int = 0
    """h: steps before an unroll whose observations `restored_state` needs."""
    copies: Sequence[Any] = ()
    """Variables that `after_update(0)` sets to the values of others; published weights leave them out."""

    @property
    @abc.abstractmethod
    def variables(self) -> Sequence[Any]:
        """All Keras variables to save in a checkpoint, in a fixed order."""

    @property
    @abc.abstractmethod
    def groups(self) -> Mapping[str, VariableGroup]:
        """Groups of trained variables, keyed by the name of their loss; at least one group, no shared variables."""

    @abc.abstractmethod
    def initial_state(self, batch_size: int) -> Any:
        """The recurrent state at the start of an episode, a nest of tensors [batch_size, ...]."""

    def stored_state(self, state: Any) -> Any:
        """The part of a state [B, ...] to store with an unroll, because it can't be restored from observations."""
        return state

    def restored_state(self, stored: Any, observations: Any) -> Any:
        """The state before an unroll, from its `stored_state` [B, ...] and the observations [h, B, ...] before it."""
        return stored

    @abc.abstractmethod
    def act(
        self,
        prev_action: tf.Tensor,
        env_output: EnvOutput,
        state: Any,
        env_ids: tf.Tensor,
        seed: tf.Tensor,
        greedy: bool | tf.Tensor = False,
    ) -> ActOutput:
        """Choose actions. It only reads the weights, has no side effects, and compiles with static shapes.

        Args:
          prev_action: [B, ...].
          env_output: fields [B, ...]; the agent resets `state` where `done`.
          state: nest [B, ...].
          env_ids: int32 [B]; ids of `num_training_envs` and above denote evaluation environments and padding.
          seed: int32 [2], different in every call; the only source of randomness.
          greedy: whether to take the greedy action, without exploration: one bool, or bool [B].
        """

    @abc.abstractmethod
    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        """The losses of time-major unrolls [L, B, ...], where L = unroll_length + overlap.

        Args:
          unroll: the experience.
          importance_weights: float32 [B]: weights of sequences from a prioritized replay; otherwise ones.
          seed: int32 [2], different for every optimizer step and replica; the only source of randomness.
        """

    def moments(self, unroll: Unroll) -> Any:
        """The contribution of a batch [L, B, ...] to running statistics, such as those in `networks.normalisation`: a
        nest of float32 tensors, means over the batch."""
        return ()

    def update_statistics(self, moments: Any, steps: float) -> None:  # noqa: B027 (most agents have none)
        """Update the running statistics, before the first optimizer step on a batch, from its `moments`, averaged over
        training devices, and the number of its agent steps. The first batch is passed twice."""

    def targets(self, unroll: Unroll) -> Any:
        """What stays the same in all passes over a batch [L, B, ...], such as the value targets of PPO and PQN.

        Called once per batch, after `update_statistics`; `loss` finds the result, a nest of tensors [T, B, ...], in
        `Unroll.targets`. () if everything is computed in the loss.
        """
        return ()

    def after_update(self, learner_updates: int) -> None:  # noqa: B027 (most agents have nothing to do)
        """Called after learner update number `learner_updates` (from 1)."""

    @property
    def length(self) -> int:
        """L: steps stored per unroll."""
        return self.unroll_length + self.overlap

    @property
    def state_spec(self) -> Any:
        """`tf.TensorSpec`s of the state of one environment, without batch axis."""
        return _specs_of(self.initial_state(1))

    @property
    def step_spec(self) -> Unroll:
        """`tf.TensorSpec`s of what is stored for one step of one environment, without batch axes."""
        state = _specs_of(self.stored_state(self.initial_state(1)))
        action, env_output = _specs_of(blank_step(self.env_spec), leading=2)
        return Unroll(state, action, env_output, action, self.behaviour_spec)


class ModelAgent(Agent):
    """Base class of agents that act with a single Keras model.

    The model has a method `initial_state(batch_size)`. It maps the previous actions [T, B, ...], an `EnvOutput`
    [T, B, ...] and a state [B, ...] to a nest of outputs [T, B, ...] and the state after the last step. If the agent
    has `moments`, the model also has `update_statistics`. If it has a `history`, it has `stored_state` and
    `restored_state`, too. A subclass defines `decide` and `loss`.
    """

    def __init__(self, model: keras.Model, env_spec: EnvSpec, unroll_length: int, overlap: int = 1):
        """Create the weights of the model by a call on a step of zeros; see `Agent` for the other arguments."""
        self.env_spec = env_spec
        self.unroll_length = unroll_length
        self.overlap = overlap
        self.model = create_weights(model, env_spec)

    @property
    def variables(self) -> Sequence[Any]:
        return self.model.variables

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        return {"model": VariableGroup(self.model.trainable_variables)}

    @property
    def history(self) -> int:  # type: ignore[override]
        return getattr(self.model, "history", 0)

    def initial_state(self, batch_size: int) -> Any:
        return self.model.initial_state(batch_size)

    def stored_state(self, state: Any) -> Any:
        return self.model.stored_state(state) if self.history else state

    def restored_state(self, stored: Any, observations: Any) -> Any:
        return self.model.restored_state(stored, observations) if self.history else stored

    def act(
        self, prev_action: Any, env_output: EnvOutput, state: Any, env_ids: Any, seed: Any, greedy: Any = False
    ) -> ActOutput:
        prev_action, env_output = tf.nest.map_structure(lambda t: t[None], (prev_action, env_output))  # T = 1
        outputs, state = self.model(prev_action, env_output, state)
        outputs = tf.nest.map_structure(lambda t: t[0], outputs)
        action, behaviour = self._compiled_decision(outputs, env_ids, seed, greedy)
        return ActOutput(action, behaviour, state)

    @tf.function(jit_compile=True, autograph=False)  # also on CPUs: a draw takes a hundred small operations
    def _compiled_decision(self, outputs: Any, env_ids: Any, seed: Any, greedy: Any) -> tuple[tf.Tensor, Any]:
        action, behaviour = self.decide(outputs, env_ids, seed, greedy is True)
        if not isinstance(greedy, bool):
            best, _ = self.decide(outputs, env_ids, seed, True)
            action = tf.where(tf.reshape(greedy, [-1] + [1] * (action.shape.rank - 1)), best, action)
        return action, behaviour

    def update_statistics(self, moments: Any, steps: float) -> None:
        self.model.update_statistics(moments, steps)

    @abc.abstractmethod
    def decide(self, outputs: Any, env_ids: tf.Tensor, seed: tf.Tensor, greedy: bool) -> tuple[tf.Tensor, Any]:
        """The actions [B, ...] and the behaviour to store, given the model's outputs [B, ...]; see `act`."""


def create_weights(model: Any, env_spec: EnvSpec) -> Any:
    """Create the weights of a model as used by `ModelAgent` by calling it on zeros (T = B = 1); return the model."""
    model(*blank_step(env_spec), model.initial_state(1))
    return model


def blank_step(env_spec: EnvSpec) -> tuple[tf.Tensor, EnvOutput]:
    """A previous action and the output of an environment, zeros [1, 1, ...]."""

    def zeros(spec: ArraySpec) -> tf.Tensor:
        return tf.zeros([1, 1, *spec.shape], spec.dtype)

    observation: Any = {name: zeros(spec) for name, spec in env_spec.observation_tensors()}
    reward, no = tf.zeros([1, 1]), tf.zeros([1, 1], tf.bool)
    return zeros(env_spec.action.tensor), EnvOutput(reward, no, no, observation.get("", observation))


def _specs_of(nest: Any, leading: int = 1) -> Any:
    return tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape[leading:], tensor.dtype), nest)
