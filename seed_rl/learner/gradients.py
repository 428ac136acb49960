"""The gradients of a minibatch, averaged over training devices and learners."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.agents.base import Agent, LossOutput
from seed_rl.foreign import kind_of
from seed_rl.specs import CannotAct
from seed_rl.system import devices
from seed_rl.types import Unroll


class Reduction(NamedTuple):
    """How several learners combine what each has computed; both functions take a nest of float32 tensors, in a function
    that is being traced."""

    learners: int
    mean: Callable[[Any], Any]
    maximum: Callable[[Any], Any]


class Measures(NamedTuple):
    """Metrics of a minibatch, equal on all devices and learners, and the priorities of its sequences."""

    means: dict[str, tf.Tensor]
    """The agent's metrics by name, float32 [], averaged."""
    maxima: dict[str, tf.Tensor]
    """Metrics by name whose maximum is reported, float32 []."""
    priorities: tf.Tensor
    """float32 [R n]: of n sequences of each replica of this learner; [0] if the agent gives none."""


LossGradients = tuple[dict[str, list[tf.Tensor]], Measures]
"""Gradients of each group of variables, averaged, with a value for each of several replicas; and what was measured."""


def compiled(function: Callable[..., Any], strategy: tf.distribute.Strategy, on_cpus: bool = False) -> Any:
    """Return a `tf.function` for a replica, compiled by XLA on accelerators and, if it pays there, on CPUs."""
    # TPUStrategy compiles everything it runs.
    by_xla = (on_cpus or devices.has_accelerator()) and not isinstance(strategy, tf.distribute.TPUStrategy)
    return tf.function(function, jit_compile=by_xla, autograph=False)


@dataclasses.dataclass(eq=False)
class Gradients:
    """Differentiates the losses of an agent on each replica of this process, from the replica's own sequences."""

    agent: Agent
    """Was built in the strategy's scope."""
    strategy: tf.distribute.Strategy
    reduction: Reduction | None

    def __call__(self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor) -> LossGradients:
        """Differentiate a minibatch: sequences `columns`, int32 [n], of each replica. Called in a compiled function.

        The importance weights are float32 [B]; each replica adds its number to the seed, int32 [2].
        """
        local = self.strategy.experimental_local_results
        gradients, measures = result = self.strategy.run(self._on_replica, (unroll, weights, columns, seed))
        first, (means, maxima, _) = tf.nest.map_structure(lambda value: local(value)[0], result)
        if self.reduction:
            gradients, means = self.reduction.mean((first, means))
            maxima = self.reduction.maximum(maxima)
        return gradients, Measures(means, maxima, tf.concat(local(measures.priorities), axis=0))

    def _on_replica(self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor) -> LossGradients:
        """Return the averages over all replicas of this learner, with the priorities of this replica's sequences."""
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        own_weights = tf.reshape(weights, [self.strategy.num_replicas_in_sync, -1])[replica]
        differentiate = compiled(self._differentiate, self.strategy)
        gradients, measures = differentiate(unroll, own_weights, columns, seed + replica)
        if self.strategy.num_replicas_in_sync == 1:
            return gradients, measures
        stacked = tf.stack([*measures.means.values()])  # a single tensor to reduce over devices
        gradients, means = context.all_reduce("mean", (gradients, stacked))
        maxima = measures.maxima
        if maxima:
            found = tf.reduce_max(context.all_gather(tf.stack([*maxima.values()])[None], axis=0), axis=0)
            maxima = dict(zip(maxima, tf.unstack(found, len(maxima)), strict=True))
        means = dict(zip(measures.means, tf.unstack(means), strict=True))
        return gradients, Measures(means, maxima, measures.priorities)

    def _differentiate(self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor) -> LossGradients:
        """Differentiate the losses of some of a replica's sequences."""
        if columns.shape[0] < weights.shape[0]:
            unroll, weights = _minibatch(unroll, columns), tf.gather(weights, columns)
        variables = {name: [each.value for each in group.variables] for name, group in self.agent.groups.items()}
        saved = _ids(each.value for each in self.agent.variables)  # before the loss, which might create some
        with tf.GradientTape(persistent=len(variables) > 1) as tape:
            output = self.agent.loss(unroll, weights, seed)
        used = [*tape.watched_variables(), *(each for own in variables.values() for each in own)]
        if stray := {f"{each.name} {each.shape}" for each in used if not _ids([each]) & saved}:
            what = f"{type(self.agent).__name__}.variables lacks {', '.join(sorted(stray))}"
            remedy = "build all layers when the agent is made, as parts of its network or of `variables`"
            raise CannotAct(f"{what}, which its loss or a group of it uses: {remedy}")
        self._check(output, weights.shape[0])
        gradients = {}
        for name, own in variables.items():
            found = tape.gradient(output.losses[name], own)
            if all(gradient is None for gradient in found):
                raise CannotAct(f"the loss {name!r} of {type(self.agent).__name__} depends on no variable of its group")
            # Gradients of embeddings have a row per look-up, which neither norms nor Keras's optimizers add up.
            pairs = zip(found, own, strict=True)
            gradients[name] = [
                tf.zeros(of.shape, of.dtype) if each is None else tf.convert_to_tensor(each) for each, of in pairs
            ]
        means, maxima = (
            {name: tf.cast(value, tf.float32) for name, value in metrics.items()}
            for metrics in (output.metrics, output.maxima)
        )
        priorities = tf.zeros([0]) if isinstance(output.priorities, tuple) else output.priorities
        return gradients, Measures(means, maxima, priorities)

    def _check(self, output: Any, sequences: int) -> None:
        """Raise CannotAct unless an agent has returned a loss for each of its groups, and all priorities or none."""
        losses = getattr(output, "losses", output)
        came = {key: kind_of(loss) for key, loss in losses.items()} if isinstance(losses, Mapping) else kind_of(losses)
        expected = dict.fromkeys(self.agent.groups, "float32[]")
        if not isinstance(output, LossOutput) or came != expected:
            what = f"a LossOutput with the losses {expected}, got a {type(output).__name__} with {came}"
            raise CannotAct(f"{type(self.agent).__name__}.loss must return {what}")
        if not isinstance(output.priorities, tuple) and kind_of(output.priorities) != f"float32[{sequences}]":
            what = f"priorities float32[{sequences}] or (), got {kind_of(output.priorities)}"
            raise CannotAct(f"{type(self.agent).__name__}.loss must return {what}")


def _ids(variables: Iterable[Any]) -> set[int]:
    """Identify TensorFlow's variables, of those on several devices each."""
    return {id(part) for each in variables for part in (each, *getattr(each, "values", ()))}


def _minibatch(unroll: Unroll, columns: tf.Tensor) -> Unroll:
    """Select sequences of an unroll, whose initial state alone has no time axis."""
    state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, columns), unroll.initial_state)
    steps = tf.nest.map_structure(lambda tensor: tf.gather(tensor, columns, axis=1), unroll._replace(initial_state=()))
    return steps._replace(initial_state=state)
