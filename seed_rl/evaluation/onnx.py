"""Exports a policy as an ONNX model, with the package tf2onnx."""

import os
import tempfile

import tensorflow as tf

from seed_rl.evaluation.export import export
from seed_rl.evaluation.policy import Policy
from seed_rl.system.files import complete_or_absent


def export_onnx(policy: Policy, path: str, batch: int) -> None:
    """Write the greedy policy as an ONNX model with the inputs of the signature `greedy` of a SavedModel; see `export`.

    Its outputs are `action` and `next_state_0`, `next_state_1`, ...: pass each as `state_...` of the next step, and the
    action as `prev_action`. In the first call all of them are zeros.

    Args:
      policy: policy to export; loaded with `float32`.
      path: output file, which is replaced.
      batch: B, the number of environments per call.

    Raises:
      ImportError: tf2onnx is not installed.
      OSError: the file can't be written.
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
