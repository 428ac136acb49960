"""A network for each role of the players in a game. Shapes: T steps, B environments, R roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from seed_rl.specs import ArraySpec, CannotAct, EnvSpec
from seed_rl.types import EnvOutput

ROLE = "role"
"""Name of the observation tensor with a player's role, a one-hot code [R]."""


class RoleModels(keras.Model):
    """R models of one kind; each step's outputs, and so their gradients, are those of the player's role.

    All models compute every step, at R times the cost of one. Their running statistics are the same.
    """

    def __init__(self, make: Callable[[], Any], env_spec: EnvSpec):
        """
        Args:
          make: creates the model of a role.
          env_spec: observations with `ROLE`.

        Raises:
          CannotAct: there is no such tensor.
        """
        super().__init__(name="roles", autocast=False)
        spec = dict(env_spec.observation_tensors()).get(ROLE, ArraySpec((), "bool"))
        if len(spec.shape) != 1:
            raise CannotAct(f"a network per role needs observations with a one-hot code {ROLE!r}, got {env_spec}")
        self.models = [make() for _ in range(spec.shape[0])]

    def initial_state(self, batch_size: int) -> Any:
        """The states of all models."""
        return tuple(model.initial_state(batch_size) for model in self.models)

    def build(self, *shapes: Any) -> None:
        """Does nothing: the models build themselves."""

    def call(self, prev_action: tf.Tensor, env_output: EnvOutput, state: Any) -> tuple[Any, Any]:
        """Runs T steps of B environments, like each of the models."""
        pairs = [model(prev_action, env_output, own) for model, own in zip(self.models, state, strict=True)]
        outputs, states = zip(*pairs, strict=True)
        role = tf.argmax(tf.cast(env_output.observation[ROLE], tf.int32), axis=-1)
        chosen = lambda *each: tf.gather(tf.stack(each, axis=2), role, axis=2, batch_dims=2)  # noqa: E731
        return tf.nest.map_structure(chosen, *outputs), states

    @property
    def baseline(self) -> Any:
        """The value head of a model."""
        return self.models[0].baseline

    def moments(self, *batch: Any) -> Any:
        """The moments, for `update_statistics`, of a batch of all roles."""
        return self.models[0].moments(*batch)

    def update_statistics(self, moments: Any, steps: float) -> None:
        """Updates the running statistics of all models."""
        for model in self.models:
            model.update_statistics(moments, steps)
