import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels

from seed_rl.buffers.rows import Rows

DTYPES = ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (13, 11, 2)])
@pytest.mark.parametrize("compiled", [True, False])
def test_written_rows_are_read_back_and_no_other_changes(dtype, shape, compiled):
    rows = Rows({"a": tf.TensorSpec(shape, dtype), "b": ()}, [5, 2])
    values = np.random.default_rng(0).integers(-100, 100, (2, *shape)).astype(dtype)

    @tf.function(jit_compile=compiled, autograph=False)
    def write(values):
        rows.scatter(tf.constant([[4, 1], [0, 0]]), {"a": values, "b": ()})

    @tf.function(jit_compile=compiled, autograph=False)
    def read():
        return rows.gather(tf.constant([4, 3, 0]))["a"]

    write(tf.constant(values))
    expected = np.zeros((3, 2, *shape), dtype)
    expected[0, 1], expected[2, 0] = values
    result = read()
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_variables_are_of_dtypes_that_accelerators_keep_in_their_own_memory(dtype):
    """This TensorFlow is built with its GPU kernels, wherever it runs."""
    (variable,) = Rows(tf.TensorSpec([], dtype), [2]).variables
    for op, attribute in (("VarHandleOp", "dtype"), ("ResourceGather", "dtype")):
        allowed = {
            types_pb2.DataType.Name(value)
            for kernel in kernels.get_registered_kernels_for_op(op).kernel
            if kernel.device_type in ("GPU", "DEFAULT")
            for constraint in kernel.constraint
            if constraint.name == attribute
            for value in constraint.allowed_values.list.type
        }
        assert types_pb2.DataType.Name(variable.dtype.as_datatype_enum) in allowed
