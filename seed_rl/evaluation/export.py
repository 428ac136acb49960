"""A policy as a SavedModel for programs without seed_rl: it acts for a batch, and its state is handed through."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from seed_rl import __version__
from seed_rl.evaluation.policy import Policy
from seed_rl.types import EnvOutput

WEIGHTS = "policy.weights.h5"
"""Keras weights of the acting network, for a network of the same configuration."""
ABOUT = "policy.json"
"""Where the policy comes from."""


class Served(tf.Module):
    """What is exported, for B environments at a time; tensors go in and out by name.

    `greedy` chooses the action that is thought best, `sample` one as in the run's evaluation environments. Both take

    - `reward` float32 [B]: what that action brought, unclipped; zero at first;
    - `done` bool [B]: whether an episode begins with this observation, as at first everywhere; it resets the state;
    - `observation` [B, ...], or of several tensors `observation_<name>`, with _ for what no identifier has;
    - `prev_action` [B, ...] and the state's tensors `state_0`, ... [B, ...]: the `action` and state of the call before,
      at first those of `initial_state`, which takes nothing;

    and `sample` also `seed` int32 [2], other numbers at each call. Both give `action` [B, ...] and the state after it.
    """

    def __init__(self, policy: Policy, batch: int):
        """
        Args:
          policy: acts.
          batch: B.
        """
        super().__init__()
        agent = policy.agent
        self._policy = policy
        self._batch = batch
        self._state = agent.initial_state(batch)
        self._names = {name: _served_name(name) for name, _ in policy.env_spec.observation_tensors()}
        variables = agent.variables if agent.model is None else agent.model.variables
        self.weights = [variable.value for variable in variables]

        inputs = self._inputs()
        seed = {"seed": tf.TensorSpec([2], tf.int32, "seed")}
        self.calls = {
            "greedy": tf.function(self._greedy, input_signature=[inputs]),
            "sample": tf.function(self._sample, input_signature=[inputs | seed]),
            "initial_state": tf.function(self._initial_state, input_signature=[]),
        }

    def _inputs(self) -> dict[str, tf.TensorSpec]:
        spec = self._policy.env_spec
        action = spec.action.tensor
        shapes = {"prev_action": (action.shape, action.dtype), "reward": ((), tf.float32), "done": ((), tf.bool)}
        shapes |= {self._names[name]: (part.shape, part.dtype) for name, part in spec.observation_tensors()}
        shapes |= {name: (part.shape[1:], part.dtype) for name, part in _named(self._state).items()}
        return {name: tf.TensorSpec([self._batch, *shape], dtype, name) for name, (shape, dtype) in shapes.items()}

    def _greedy(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._act(inputs, tf.zeros([2], tf.int32), greedy=True)

    def _sample(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._act(inputs, inputs["seed"], greedy=False)

    def _act(self, inputs: dict[str, tf.Tensor], seed: tf.Tensor, greedy: bool) -> dict[str, tf.Tensor]:
        observation = {name: inputs[served] for name, served in self._names.items()}
        state = [inputs[name] for name in _named(self._state)]
        action, after = self._policy.one_step(
            inputs["prev_action"],
            EnvOutput(inputs["reward"], inputs["done"], observation.get("", observation)),
            tf.nest.pack_sequence_as(self._state, state),
            seed,
            greedy,
        )
        return {"action": action, **_named(after)}

    def _initial_state(self) -> dict[str, tf.Tensor]:
        action = self._policy.env_spec.action.tensor
        before = tf.zeros([self._batch, *action.shape], action.dtype)
        return {"prev_action": before, **_named(tf.nest.map_structure(tf.identity, self._state))}


def _served_name(observed: str) -> str:
    return re.sub(r"\W", "_", f"observation_{observed}") if observed else "observation"


def _named(state: Any) -> dict[str, tf.Tensor]:
    return {f"state_{index}": tensor for index, tensor in enumerate(tf.nest.flatten(state))}


def export(policy: Policy, directory: str, batch: int) -> None:
    """Writes a SavedModel with the signatures of `Served`, the acting network's weights, and where they come from.

    Whether the policy itself is greedy makes no difference: who serves it chooses by the signature. To call it:

        served = tf.saved_model.load(directory).signatures
        memory = served["initial_state"]()
        memory = served["greedy"](reward=..., done=..., observation=..., **memory)
        action = memory["prev_action"] = memory.pop("action")

    Args:
      policy: with what it has learned.
      directory: appears when it is complete; an earlier export there is replaced.
      batch: B, environments in a call.

    Raises:
      OSError: it can't be written, or is there and no export.
    """
    with _new_directory(directory) as new:
        served = Served(policy, batch)
        try:
            tf.saved_model.save(served, new, dict(served.calls))
        except tf.errors.OpError as error:
            raise OSError(f"{new} can't be written: {error.message}") from error
        if policy.agent.model is not None:
            policy.agent.model.save_weights(os.path.join(new, WEIGHTS))
        about = {"seed_rl": __version__, "checkpoint": policy.checkpoint, "env_frames": policy.env_frames}
        with open(os.path.join(new, ABOUT), "w", encoding="utf-8") as file:
            json.dump({**about, "batch": batch, "environment": str(policy.env_spec)}, file, indent=2)
            file.write("\n")


@contextlib.contextmanager
def _new_directory(path: str) -> Iterator[str]:
    """A directory that gets this name when it is complete, in place of an earlier export."""
    path = os.path.abspath(path)
    if os.path.lexists(path) and not os.path.isfile(os.path.join(path, ABOUT)) and os.listdir(path):
        raise FileExistsError(f"{path} is there already and no export")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = tempfile.mkdtemp(prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path))
    try:
        yield new
        os.chmod(new, 0o755)  # mkdtemp's are for the owner only
        if os.path.isdir(path):
            old = f"{new}.old"
            os.rename(path, old)
            os.rename(new, path)
            shutil.rmtree(old)
        else:
            os.rename(new, path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
