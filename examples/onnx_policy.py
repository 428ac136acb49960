"""Convert an exported policy to ONNX: `python onnx_policy.py pong_export pong.onnx`, with the package tf2onnx.

The model has the inputs of the signature `greedy`, and the outputs `action` and `next_state_0`, `next_state_1`, ...:
pass each as `state_...` of the next step, and the action as `prev_action`.
"""

import sys

import tensorflow as tf
import tf2onnx


def convert(export: str, path: str) -> None:
    """Write the greedy policy of the export in a directory as an ONNX model."""
    policy = tf.saved_model.load(export)
    greedy = policy.signatures["greedy"]
    inputs = greedy.structured_input_signature[1]

    @tf.function(input_signature=[inputs])
    def step(inputs):  # an output of ONNX must not have the name of an input
        return {name if name == "action" else f"next_{name}": tensor for name, tensor in greedy(**inputs).items()}

    tf2onnx.convert.from_function(step, input_signature=[inputs], opset=18, output_path=path)


if __name__ == "__main__":
    convert(*sys.argv[1:])
