"""The optimizers of an agent's groups of variables: norms of their gradients, clipping, and the step itself."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.weights.checkpoints import name_variables


class GroupOptimizers:
    """An optimizer for each of an agent's groups of variables; gradients are lists of tensors by the group's name."""

    def __init__(self, agent: Agent, optimizer: Optimizer, strategy: tf.distribute.Strategy):
        """The settings are defaults, which each group may change; the agent was built in the strategy's scope."""
        self._strategy = strategy
        self._groups = agent.groups
        self.settings = {name: group.optimizer(optimizer) for name, group in self._groups.items()}
        with strategy.scope():
            self._optimizers = {name: own.build(self._groups[name].variables) for name, own in self.settings.items()}
        self.variables: dict[str, Any] = {}
        """The state of the optimizers: Keras variables by names that are the same in every process."""
        for name, built in self._optimizers.items():
            self.variables |= name_variables(f"optimizer/{name}", built.variables)

    @property
    def are_new(self) -> bool:
        """Whether no step has been taken yet."""
        return all(int(optimizer.iterations.numpy()) == 0 for optimizer in self._optimizers.values())

    def rates(self, progress: float) -> tf.Tensor:
        """Return the learning rate of each group after a share of the run's frames, float32 [groups]."""
        return tf.constant([settings.learning_rate_at(progress) for settings in self.settings.values()], tf.float32)

    @tf.function(jit_compile=True, autograph=False)
    def norms(self, gradients: Mapping[str, list[tf.Tensor]]) -> tf.Tensor:
        """Return the gradient norm of each group, float32 [groups]."""
        return tf.stack([tf.linalg.global_norm(own) for own in gradients.values()])

    def apply(self, gradients: Mapping[str, list[tf.Tensor]], norms: tf.Tensor, rates: tf.Tensor) -> None:
        """Clip gradients, equal on all replicas, by their norms, float32 [groups], and apply them with the rates."""
        if self._strategy.num_replicas_in_sync == 1:
            self._compiled_apply(gradients, norms, rates)
            return
        self._set_learning_rates(rates)
        self._strategy.run(self._apply, (gradients, norms))

    @tf.function(jit_compile=True, autograph=False)  # also on CPUs: one pass over the weights instead of a dozen
    def _compiled_apply(self, gradients: Mapping[str, list[tf.Tensor]], norms: tf.Tensor, rates: tf.Tensor) -> None:
        self._set_learning_rates(rates)
        # Outside of replicas Keras has nothing to sum up, for which TensorFlow would keep this function for ever.
        tf.distribute.get_replica_context().merge_call(lambda _: self._apply(gradients, norms))

    def _apply(self, gradients: Mapping[str, list[tf.Tensor]], norms: tf.Tensor) -> None:
        replicas = self._strategy.num_replicas_in_sync
        for (name, own), norm in zip(gradients.items(), tf.unstack(norms), strict=True):
            limit = self.settings[name].clip_norm
            if limit:
                own, _ = tf.clip_by_global_norm(own, limit, use_norm=norm)
            if replicas > 1:  # Keras's optimizers sum over them
                own = [gradient / replicas for gradient in own]
            self._optimizers[name].apply(own, list(self._groups[name].variables))

    def _set_learning_rates(self, rates: tf.Tensor) -> None:
        for optimizer, rate in zip(self._optimizers.values(), tf.unstack(rates), strict=True):
            optimizer.learning_rate.assign(rate)
