"""Steps and actions as bytes: layout, round trips, and what hostile bytes may do (raise WireError, nothing else)."""

import math
import string

import numpy as np
import pytest

from seed_rl.specs import DTYPES, ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import StepCodec, WireError, encode_varint
from seed_rl.types import EnvOutput

SMALL = EnvSpec(ArraySpec((2, 3), "uint8"), DiscreteSpec(5))
NAMED = EnvSpec({"pixels": ArraySpec((4,), "uint8"), "alive": ArraySpec((), "bool")}, DiscreteSpec(5))


def random_tensor(rng, dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)


def random_array_spec(rng):
    return ArraySpec(tuple(rng.integers(1, 6, rng.integers(0, 4)).tolist()), str(rng.choice(DTYPES)))


def random_spec(rng):
    if rng.random() < 0.3:
        return EnvSpec(random_array_spec(rng), DiscreteSpec(int(rng.integers(1, 20))))
    names = {"".join(rng.choice(list(string.ascii_letters), 3)) for _ in range(rng.integers(1, 6))}
    return EnvSpec({name: random_array_spec(rng) for name in names}, DiscreteSpec(int(rng.integers(1, 20))))


def random_step(rng, spec, num_envs):
    tensors = {
        name: random_tensor(rng, tensor.dtype, (num_envs, *tensor.shape)) for name, tensor in spec.observation_tensors()
    }
    return EnvOutput(
        reward=rng.standard_normal(num_envs).astype(np.float32),
        done=rng.random(num_envs) < 0.5,
        observation=tensors[""] if isinstance(spec.observation, ArraySpec) else tensors,
    )


def tensors_of(output):
    observation = output.observation if isinstance(output.observation, dict) else {"": output.observation}
    return {"reward": output.reward, "done": output.done, **{f"observation {k}": v for k, v in observation.items()}}


def assert_same(actual, expected):
    assert type(actual.observation) is type(expected.observation)
    actual, expected = tensors_of(actual), tensors_of(expected)
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert actual[name].dtype == tensor.dtype, name
        np.testing.assert_array_equal(actual[name], tensor, err_msg=name, strict=True)


@pytest.mark.parametrize("seed", range(40))
def test_steps_of_random_specs_survive_the_round_trip(seed):
    rng = np.random.default_rng(seed)
    spec, num_envs = random_spec(rng), int(rng.integers(1, 6))
    codec = StepCodec(spec, num_envs)
    step = random_step(rng, spec, num_envs)
    message = codec.encode_step(step)
    assert len(message) == codec.step_bytes
    assert_same(codec.decode_step(message), step)


def test_layout_of_a_step():
    spec = EnvSpec({"b": ArraySpec((2,), "uint16"), "a": ArraySpec((), "int32")}, DiscreteSpec(3))
    observation = {"b": np.array([[1, 2], [3, 4]], np.uint16), "a": np.array([-1, 7], np.int32)}
    message = StepCodec(spec, 2).encode_step(
        EnvOutput(np.array([1.0, -2.0], np.float32), np.array([False, True]), observation)
    )
    assert message == bytes.fromhex(
        "0a 1a  0000803f 000000c0  00 01  ffffffff 07000000  0100 0200 0300 0400".replace(" ", "")
    )


def test_layout_of_actions():
    codec = StepCodec(SMALL, 2)
    message = bytes.fromhex("0a 08 01000000 04000000".replace(" ", ""))
    assert codec.encode_actions(np.array([1, 4], np.int32)) == message
    assert len(message) == codec.actions_bytes
    np.testing.assert_array_equal(codec.decode_actions(message), np.array([1, 4], np.int32), strict=True)


@pytest.mark.parametrize("shape", [(1,), (100,), (84, 84), (400, 400, 2)], ids=str)
def test_generated_classes_read_and_write_the_same_bytes(shape):
    rng = np.random.default_rng(0)
    spec = EnvSpec(ArraySpec(shape, "uint8"), DiscreteSpec(5))
    codec = StepCodec(spec, 3)
    step = random_step(rng, spec, 3)
    message = codec.encode_step(step)
    payload = pb.StepRequest.FromString(message).payload
    assert payload == step.reward.tobytes() + step.done.tobytes() + step.observation.tobytes()
    assert_same(codec.decode_step(pb.StepRequest(payload=payload).SerializeToString()), step)

    actions = np.array([0, 4, 2], np.int32)
    assert pb.StepReply.FromString(codec.encode_actions(actions)).payload == actions.tobytes()
    reply = pb.StepReply(payload=actions.tobytes()).SerializeToString()
    np.testing.assert_array_equal(codec.decode_actions(reply), actions)


def test_decoded_tensors_are_read_only_views_of_the_message():
    codec = StepCodec(NAMED, 3)
    message = codec.encode_step(random_step(np.random.default_rng(0), NAMED, 3))
    tensors = tensors_of(codec.decode_step(message))
    assert len(tensors) == 4
    for name, tensor in tensors.items():
        assert np.shares_memory(tensor, np.frombuffer(message, np.uint8)), name
        assert not tensor.flags.writeable, name


def test_decoded_actions_are_an_array_of_their_own():
    codec = StepCodec(SMALL, 3)
    actions = codec.decode_actions(codec.encode_actions(np.array([1, 2, 3], np.int32)))
    assert actions.flags.writeable
    assert actions.flags.aligned


def test_tensors_that_are_not_contiguous_are_encoded_by_value():
    rng = np.random.default_rng(0)
    step = random_step(rng, SMALL, 4)
    strided = EnvOutput(
        np.repeat(step.reward, 2)[::2], np.repeat(step.done, 3)[::3], np.asfortranarray(step.observation)
    )
    assert not strided.observation.flags.c_contiguous
    codec = StepCodec(SMALL, 4)
    assert codec.encode_step(strided) == codec.encode_step(step)


ZEROS = EnvOutput(np.zeros(2, np.float32), np.zeros(2, bool), np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reward": np.zeros(2)}, r"expected reward float32\[2\], got float64\[2\]"),
        ({"reward": np.zeros(3, np.float32)}, r"expected reward float32\[2\], got float32\[3\]"),
        ({"reward": np.zeros(2, ">f4")}, r"expected reward float32\[2\], got >f4\[2\]"),
        ({"reward": [0.0, 0.0]}, r"expected reward as a numpy array float32\[2\], got list"),
        ({"done": np.zeros(2, np.uint8)}, r"expected done bool\[2\], got uint8\[2\]"),
        (
            {"observation": np.zeros((2, 3, 2), np.uint8)},
            r"expected observation uint8\[2, 2, 3\], got uint8\[2, 3, 2\]",
        ),
        ({"observation": {"": np.zeros((2, 2, 3), np.uint8)}}, r"uint8\[2, 2, 3\], got dict"),
    ],
)
def test_wrong_tensors_are_not_encoded(change, sentence):
    with pytest.raises(WireError, match=sentence):
        StepCodec(SMALL, 2).encode_step(ZEROS._replace(**change))


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        (np.zeros((2, 4), np.uint8), "expected observations named alive, pixels, got one ndarray"),
        ({"pixels": np.zeros((2, 4), np.uint8)}, "named alive, pixels, got pixels"),
        ({"pixels": np.zeros((2, 4), np.uint8), "alive": np.zeros(2, bool), 3: 4}, "got 3, alive, pixels"),
        ({"pixels": np.zeros((2, 4), np.int8), "alive": np.zeros(2, bool)}, r"pixels uint8\[2, 4\], got int8\[2, 4\]"),
    ],
)
def test_wrong_names_are_not_encoded(observation, sentence):
    with pytest.raises(WireError, match=sentence):
        StepCodec(NAMED, 2).encode_step(ZEROS._replace(observation=observation))


def test_a_message_of_any_other_size_is_refused():
    codec = StepCodec(SMALL, 2)
    message = codec.encode_step(ZEROS)
    for size in range(len(message)):
        with pytest.raises(WireError, match="expected a payload of 22 bytes, got"):
            codec.decode_step(message[:size])
    for extra in (b"\0", b"\x0a\x00", message):
        with pytest.raises(WireError, match="expected a payload of 22 bytes, got .* after a length that says 22"):
            codec.decode_step(message + extra)


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (b"\x12\x16", "begins with byte 0x12"),
        (b"\x08\x16", "begins with byte 0x08"),
        (b"\x0a\x15", "got 21"),
        (b"\x0a\x96\x00", "shortest form"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "doesn't end within 5 bytes"),
        (b"\x0a\xff\xff\xff\xff\x7f", "got 34359738367"),
    ],
)
def test_a_bad_frame_is_refused(header, sentence):
    payload = StepCodec(SMALL, 2).encode_step(ZEROS)[2:]
    assert len(payload) == 22
    with pytest.raises(WireError, match=sentence):
        StepCodec(SMALL, 2).decode_step(header + payload)


@pytest.mark.parametrize("value", [2, 128, 255])
@pytest.mark.parametrize("env", [0, 1, 2])
def test_done_must_be_0_or_1(value, env):
    codec = StepCodec(SMALL, 3)
    message = bytearray(codec.encode_step(random_step(np.random.default_rng(0), SMALL, 3)))
    message[2 + 3 * 4 + env] = value
    with pytest.raises(WireError, match="done must be 0 or 1"):
        codec.decode_step(bytes(message))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_must_be_finite(value):
    spec = EnvSpec({"velocity": ArraySpec((3,), "float16")}, DiscreteSpec(2))
    codec = StepCodec(spec, 4)
    step = random_step(np.random.default_rng(0), spec, 4)
    codec.decode_step(codec.encode_step(step))
    step.reward[2] = value
    with pytest.raises(WireError, match=rf"reward must be finite, got {value} in environment 2"):
        codec.decode_step(codec.encode_step(step))
    step.reward[2] = 0
    step.observation["velocity"][3, 1] = value
    with pytest.raises(WireError, match=rf"velocity must be finite, got {value} in environment 3"):
        codec.decode_step(codec.encode_step(step))


def test_rewards_whose_sum_overflows_are_welcome():
    codec = StepCodec(SMALL, 2)
    step = ZEROS._replace(reward=np.full(2, np.finfo(np.float32).max))
    np.testing.assert_array_equal(codec.decode_step(codec.encode_step(step)).reward, step.reward)


def test_bools_of_an_observation_must_be_0_or_1():
    codec = StepCodec(NAMED, 2)
    message = bytearray(codec.encode_step(random_step(np.random.default_rng(0), NAMED, 2)))
    message[2 + 2 * 5] = 3  # the first byte of `alive`
    with pytest.raises(WireError, match="alive must hold only 0 and 1"):
        codec.decode_step(bytes(message))


@pytest.mark.parametrize("actions", [[-1, 0], [0, 5], [2**31 - 1, 0], [-(2**31), 1]])
def test_actions_must_be_in_the_action_space(actions):
    codec = StepCodec(SMALL, 2)
    with pytest.raises(WireError, match=f"actions must be 0 to 4, got {min(actions)} to {max(actions)}"):
        codec.decode_actions(codec.encode_actions(np.array(actions, np.int32)))


@pytest.mark.parametrize("actions", [np.zeros(2, np.int64), np.zeros(3, np.int32), np.zeros((2, 1), np.int32)])
def test_wrong_actions_are_not_encoded(actions):
    with pytest.raises(WireError, match=r"expected actions int32\[2\], got"):
        StepCodec(SMALL, 2).encode_actions(actions)


@pytest.mark.parametrize("spec", [SMALL, NAMED, EnvSpec(ArraySpec((2,), "float32"), DiscreteSpec(3))], ids=str)
def test_garbage_raises_nothing_but_a_wire_error(spec):
    rng = np.random.default_rng(1)
    codec = StepCodec(spec, 3)
    step = codec.encode_step(random_step(rng, spec, 3))
    actions = codec.encode_actions(np.array([0, 1, 2], np.int32))
    refused = 0
    for _ in range(3000):
        for valid, decode in ((step, codec.decode_step), (actions, codec.decode_actions)):
            garbage = bytearray(valid)
            for _ in range(rng.integers(1, 4)):
                garbage[rng.integers(len(garbage))] = rng.integers(256)
            if rng.random() < 0.2:
                garbage = rng.bytes(rng.integers(2 * len(valid)))
            try:
                decode(bytes(garbage))
            except WireError:
                refused += 1
    assert refused > 1000


def test_varints():
    assert encode_varint(0) == b"\x00"
    assert encode_varint(127) == b"\x7f"
    assert encode_varint(128) == b"\x80\x01"
    assert encode_varint(300) == b"\xac\x02"


def test_a_group_has_environments():
    with pytest.raises(ValueError, match="at least one environment, got 0"):
        StepCodec(SMALL, 0)
