"""A policy as a SavedModel that any TensorFlow program can serve: an act call for a batch, the state handed through."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from seed_rl.evaluation.policy import Policy
from seed_rl.types import EnvOutput

WEIGHTS = "policy.weights.h5"
"""Keras weights beside the SavedModel."""


class Served(tf.Module):
    """What is exported: `act` and `initial_state`, tensors by name in and out, for B environments at a time.

    `act` takes `prev_action` [B, ...], `reward` float32 [B], `done` bool [B] (whether an episode begins with this
    observation: the state is reset there), the observation's tensors [B, ...] by their names (`observation` where there
    is only one), `seed` int32 [2], and the state's tensors `state_0`, ... [B, ...]. It gives `action` and the state.
    """

    def __init__(self, policy: Policy, batch: int):
        super().__init__()
        agent, spec = policy.agent, policy.env_spec
        self._policy = policy
        self._template = agent.initial_state(batch)
        self._names = [name or "observation" for name, _ in spec.observation_tensors()]
        self.weights = [variable.value for variable in agent.variables]  # tracked, so that they are saved

        def batch_of(shape: Any, dtype: Any, name: str) -> tf.TensorSpec:
            return tf.TensorSpec([batch, *shape], dtype, name)

        action = spec.action.tensor
        inputs = {
            "prev_action": batch_of(action.shape, action.dtype, "prev_action"),
            "reward": batch_of([], tf.float32, "reward"),
            "done": batch_of([], tf.bool, "done"),
            "seed": tf.TensorSpec([2], tf.int32, "seed"),
        }
        for name, (_, tensor) in zip(self._names, spec.observation_tensors(), strict=True):
            inputs[name] = batch_of(tensor.shape, tensor.dtype, name)
        for index, tensor in enumerate(tf.nest.flatten(self._template)):
            inputs[f"state_{index}"] = batch_of(tensor.shape[1:], tensor.dtype, f"state_{index}")
        self.act = tf.function(self._act, input_signature=[inputs])
        self.initial_state = tf.function(self._initial_state, input_signature=[])

    def _act(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        observed = [inputs[name] for name in self._names]
        named = len(observed) > 1 or self._names != ["observation"]
        observation: Any = dict(zip(self._names, observed, strict=True)) if named else observed[0]
        state = [inputs[f"state_{index}"] for index in range(len(tf.nest.flatten(self._template)))]
        action, after = self._policy.one_step(
            inputs["prev_action"],
            EnvOutput(inputs["reward"], inputs["done"], observation),
            tf.nest.pack_sequence_as(self._template, state),
            inputs["seed"],
        )
        return {"action": action, **_named(after)}

    def _initial_state(self) -> dict[str, tf.Tensor]:
        return _named(tf.nest.map_structure(tf.identity, self._template))


def _named(state: Any) -> dict[str, tf.Tensor]:
    return {f"state_{index}": tensor for index, tensor in enumerate(tf.nest.flatten(state))}


def export(policy: Policy, directory: str, batch: int) -> None:
    """Writes a SavedModel with the signatures `act` and `initial_state`, and the Keras weights beside it.

    Args:
      policy: with what it has learned.
      directory: to write into.
      batch: B, environments in a call.

    Raises:
      OSError: the directory can't be written.
    """
    os.makedirs(directory, exist_ok=True)
    served = Served(policy, batch)
    signatures = {"act": served.act, "initial_state": served.initial_state}
    tf.saved_model.save(served, directory, signatures)
    if policy.agent.model is not None:
        policy.agent.model.save_weights(os.path.join(directory, WEIGHTS))
