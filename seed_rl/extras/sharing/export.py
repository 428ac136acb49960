"""Exports a policy as a SavedModel or ONNX model that acts on a batch without seed_rl; the caller keeps the state."""

import contextlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from seed_rl import __version__
from seed_rl.evaluation.policy import Policy
from seed_rl.extras.sharing.published import ABOUT
from seed_rl.specs import CannotAct
from seed_rl.system.files import complete_or_absent
from seed_rl.types import EnvOutput


def export(policy: Policy, directory: str, batch: int) -> None:
    """Write a SavedModel and a description of its origin.

    To use it:

        served = tf.saved_model.load(directory).signatures
        memory = served["initial_state"]()
        memory = served["greedy"](reward=..., done=..., observation=..., **memory)
        action = memory["prev_action"] = memory.pop("action")

    `greedy` returns the greedy action, and `sample` explores as in the run's evaluation environments, whether or not
    `policy` is greedy. `serving_default`, the conventional name, is the same as `greedy`. Their inputs are

    - `reward` float32 [B]: unclipped reward of the previous action; zero in the first call;
    - `done` bool [B]: whether the observation starts an episode, which resets the state; true in the first call;
    - `observation` [B, ...], or `observation_<name>` for each of several tensors, with invalid characters of
      identifiers replaced by _;
    - `prev_action` [B, ...] and the state tensors `state_0`, ... [B, ...]: the `action` and state returned by the
      previous call, or in the first call the result of `initial_state`, which takes no arguments;
    - for `sample`, `seed` int32 [2], different at each call.

    Their outputs are `action` [B, ...] and the new state. The policy is loaded with `float32` for programs that lack
    bfloat16. The directory appears once it is complete, and replaces an earlier export, but nothing else.
    """
    with new_directory(directory) as new:
        served = tf.Module()
        served.calls = _signatures(policy, batch)
        served.weights = [own for call in served.calls.values() for own in call.get_concrete_function().variables]
        try:
            tf.saved_model.save(served, new, dict(served.calls))
        except tf.errors.OpError as error:
            raise OSError(f"{new} can't be written: {error.message}") from error
        _leave_compilation_to_the_server(new)
        about: dict[str, Any] = {"seed_rl": __version__, "checkpoint": os.path.basename(policy.checkpoint)}
        about |= {"env_frames": policy.env_frames, "batch": batch, "environment": str(policy.env_spec)}
        pathlib.Path(new, ABOUT).write_text(f"{json.dumps(about, indent=2)}\n", encoding="utf-8")


def export_onnx(policy: Policy, path: str, batch: int) -> None:
    """Write the greedy policy as an ONNX model with the inputs of the signature `greedy` of a SavedModel; see `export`.

    Its outputs are `action` and `next_state_0`, `next_state_1`, ...: pass each as `state_...` of the next step, and the
    action as `prev_action`. In the first call all of them are zeros. Needs tf2onnx.
    """
    import tf2onnx

    with tempfile.TemporaryDirectory() as folder:
        directory = os.path.join(folder, "export")
        export(policy, directory, batch)
        loaded = tf.saved_model.load(directory)  # holds the weights
        greedy = loaded.signatures["greedy"]
        inputs = greedy.structured_input_signature[1]

        @tf.function(input_signature=[inputs], autograph=False)
        def step(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:  # an output must not be named like an input
            return {name if name == "action" else f"next_{name}": tensor for name, tensor in greedy(**inputs).items()}

        model, _ = tf2onnx.convert.from_function(step, input_signature=[inputs], opset=18)
    with complete_or_absent(path) as file:
        file.write(model.SerializeToString())


def _signatures(policy: Policy, batch: int) -> dict[str, Callable[..., Any]]:
    spec, action = policy.env_spec, policy.env_spec.action.tensor
    initial = policy.agent.initial_state(batch)
    names = {name: re.sub(r"\W", "_", f"observation_{name}") for name, _ in spec.observation_tensors() if name}
    names = names or {"": "observation"}
    if len(set(names.values())) < len(names):
        raise CannotAct(f"an export can't tell these observations apart: {', '.join(map(repr, names))}")
    shapes = {"prev_action": (action.shape, action.dtype), "reward": ((), tf.float32), "done": ((), tf.bool)}
    shapes |= {names[name]: (part.shape, part.dtype) for name, part in spec.observation_tensors()}
    shapes |= {name: (part.shape[1:], part.dtype) for name, part in _named(initial).items()}
    inputs = {name: tf.TensorSpec([batch, *shape], dtype, name) for name, (shape, dtype) in shapes.items()}

    def act(inputs: dict[str, tf.Tensor], seed: tf.Tensor, greedy: bool) -> dict[str, tf.Tensor]:
        observation = {name: inputs[served] for name, served in names.items()}
        done = inputs["done"]
        output = EnvOutput(inputs["reward"], done, tf.zeros_like(done), observation.get("", observation))
        state = tf.nest.pack_sequence_as(initial, [inputs[name] for name in _named(initial)])
        chosen, after = policy.one_step(inputs["prev_action"], output, state, seed, greedy)
        return {"action": chosen, **_named(after)}

    @tf.function(input_signature=[inputs], autograph=False)
    def greedy(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return act(inputs, tf.zeros([2], tf.int32), greedy=True)

    @tf.function(input_signature=[inputs | {"seed": tf.TensorSpec([2], tf.int32, "seed")}], autograph=False)
    def sample(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return act(inputs, inputs["seed"], greedy=False)

    @tf.function(input_signature=[], autograph=False)
    def initial_state() -> dict[str, tf.Tensor]:
        before = tf.zeros([batch, *action.shape], action.dtype)
        return {"prev_action": before, **_named(tf.nest.map_structure(tf.identity, initial))}

    return {"greedy": greedy, "serving_default": greedy, "sample": sample, "initial_state": initial_state}


def _leave_compilation_to_the_server(directory: str) -> None:
    """Remove the marks of functions that XLA must compile, since other servers and converters may lack it."""
    os.remove(os.path.join(directory, "fingerprint.pb"))  # it has a checksum of the file that changes
    path = pathlib.Path(directory, "saved_model.pb")
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in saved.meta_graphs:
        for function in graph.graph_def.library.function:
            for marked in (function, *function.node_def):
                for name in ("_XlaMustCompile", "_noinline"):
                    if name in marked.attr:
                        del marked.attr[name]
    path.write_bytes(saved.SerializeToString())


def _named(state: Any) -> dict[str, tf.Tensor]:
    return {f"state_{index}": tensor for index, tensor in enumerate(tf.nest.flatten(state))}


@contextlib.contextmanager
def new_directory(path: str) -> Iterator[str]:
    """Yield a temporary directory, which is then renamed to `path`, replacing an earlier export."""
    path = os.path.abspath(path)
    if os.path.lexists(path) and not os.path.isfile(os.path.join(path, ABOUT)) and os.listdir(path):
        raise FileExistsError(f"{path} already exists and is not an export")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    prefix = f"{os.path.basename(path)}."
    with tempfile.TemporaryDirectory(prefix=prefix, dir=os.path.dirname(path), ignore_cleanup_errors=True) as scratch:
        new, old = os.path.join(scratch, "new"), os.path.join(scratch, "old")
        os.mkdir(new)
        yield new
        if os.path.isdir(path):
            os.rename(path, old)
        os.rename(new, path)
