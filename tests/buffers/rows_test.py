import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels

from seed_rl.buffers.rows import Rows

DTYPES = ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64")
SHAPES = ((), (3,), (13, 11, 2))


@pytest.mark.parametrize("compiled", [True, False])
def test_written_rows_are_read_back_and_no_other_changes(compiled):
    specs = {f"{dtype} {shape}": tf.TensorSpec(shape, dtype) for dtype in DTYPES for shape in SHAPES}
    rows, rng = Rows({**specs, "nothing": ()}, 5), np.random.default_rng(0)
    values = {name: rng.integers(-100, 100, (2, *spec.shape)).astype(spec.dtype.name) for name, spec in specs.items()}

    @tf.function(jit_compile=compiled, autograph=False)
    def write(values):
        rows.scatter(tf.constant([4, 0]), {**values, "nothing": ()})

    write(tf.nest.map_structure(tf.constant, values))
    read = tf.function(rows.gather, jit_compile=compiled, autograph=False)(tf.constant([[4, 3, 0]]))
    assert read.pop("nothing") == ()
    for name, tensor in read.items():
        expected = np.zeros((1, 3, *specs[name].shape), values[name].dtype)
        expected[0, [0, 2]] = values[name]
        np.testing.assert_array_equal(tensor, expected, err_msg=name, strict=True)


@pytest.mark.parametrize(("declared", "written"), [("float32", "int32"), ("int32", "float32"), ("uint32", "int32")])
def test_rows_of_another_dtype_are_refused(declared, written):
    rows = Rows(tf.TensorSpec([2], declared), 5)
    with pytest.raises(ValueError, match=f"dtype {declared} .* dtype {written}"):
        rows.scatter(tf.constant([4]), tf.ones([1, 2], written))


def test_rows_are_copied_out_and_back():
    specs = {"a": tf.TensorSpec([2], tf.float32), "b": tf.TensorSpec([3, 5], tf.int32)}
    rows, other, at = Rows(specs, 4), Rows(specs, 9), np.array([2, 0], np.int32)
    arrays = [np.ones((2, 2), np.float32), np.arange(30, dtype=np.int32).reshape(2, 3, 5)]
    rows.set(at, arrays)
    other.set(at + 5, rows.get(at))
    for found in rows.get(at), other.get(at + 5):
        tf.nest.map_structure(np.testing.assert_array_equal, found, arrays)
    assert not any(map(np.any, other.get(np.arange(5))))
    for odd, sentence in (
        (arrays[:1], "expected 2 tensors, got 1"),
        ([arrays[0][:1], arrays[1]], r"expected float32\[2, 2\], got float32\[1, 2\]"),
        ([arrays[0], arrays[1].astype(np.int64)], r"expected int32\[2, 3, 5\], got int64\[2, 3, 5\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rows.set(at, odd)


def test_rows_of_two_axes_take_whole_pieces_of_128_elements():
    assert Rows((tf.TensorSpec([4, 40], tf.uint16), tf.TensorSpec([3], tf.float32)), 5).nbytes_each == 512 + 12


@pytest.mark.parametrize("dtype", DTYPES)
def test_variables_are_of_dtypes_that_accelerators_keep_in_their_own_memory(dtype):
    """This TensorFlow is built with its GPU kernels, wherever it runs."""
    (variable,) = Rows(tf.TensorSpec([], dtype), 2).variables
    for op in ("VarHandleOp", "ResourceGather"):
        allowed = {
            types_pb2.DataType.Name(value)
            for kernel in kernels.get_registered_kernels_for_op(op).kernel
            if kernel.device_type in ("GPU", "DEFAULT")
            for constraint in kernel.constraint
            if constraint.name == "dtype"
            for value in constraint.allowed_values.list.type
        }
        assert types_pb2.DataType.Name(variable.dtype.as_datatype_enum) in allowed
