"""Steps and actions as bytes: layout, round trips, and what hostile bytes may do (raise WireError, nothing else)."""

import math
import string

import numpy as np
import pytest

from seed_rl.specs import DTYPES, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import StepCodec, WireError, encode_varint
from seed_rl.types import EnvOutput

SMALL = EnvSpec(ArraySpec((2, 3), "uint8"), DiscreteSpec(5))
NAMED = EnvSpec({"pixels": ArraySpec((4,), "uint8"), "alive": ArraySpec((), "bool")}, DiscreteSpec(5))
CHOICES = EnvSpec(ArraySpec((2,), "float32"), MultiDiscreteSpec((2, 3, 300)))
FORCES = EnvSpec(NAMED.observation, ContinuousSpec((-1.5, 0.0), (1.5, 4.0)))


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


def random_action_spec(rng):
    kind, parts = rng.integers(3), rng.integers(1, 6)
    if kind == 0:
        return DiscreteSpec(int(rng.integers(1, 20)))
    if kind == 1:
        return MultiDiscreteSpec(tuple(rng.integers(1, 20, parts).tolist()))
    low = rng.normal(size=parts).astype(np.float32)
    return ContinuousSpec(tuple(low.tolist()), tuple((low + rng.uniform(0.1, 9, parts)).astype(np.float32).tolist()))


def random_spec(rng):
    if rng.random() < 0.3:
        return EnvSpec(random_array_spec(rng), random_action_spec(rng))
    names = {"".join(rng.choice(list(string.ascii_letters), 3)) for _ in range(rng.integers(1, 6))}
    return EnvSpec({name: random_array_spec(rng) for name in names}, random_action_spec(rng))


def extreme_and_random_actions(rng, spec, num_envs):
    """Actions whose parts are at the ends of what they may be, or in between."""
    shape = (num_envs, *spec.tensor.shape)
    if isinstance(spec, ContinuousSpec):
        low, high = (np.array(bound, np.float32) for bound in (spec.low, spec.high))
        between = rng.uniform(low, high, shape)
    else:
        low, high = np.array(0), np.array(spec.n) - 1
        between = rng.integers(spec.n, size=shape)
    where = rng.integers(3, size=shape)
    return np.where(where == 0, low, np.where(where == 1, high, between)).astype(spec.tensor.dtype)


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


@pytest.mark.parametrize("seed", range(40))
def test_actions_of_random_specs_survive_the_round_trip(seed):
    rng = np.random.default_rng(seed)
    spec, num_envs = random_spec(rng), int(rng.integers(1, 6))
    codec = StepCodec(spec, num_envs)
    actions = extreme_and_random_actions(rng, spec.action, num_envs)
    message = codec.encode_actions(actions)
    assert len(message) == codec.actions_bytes
    np.testing.assert_array_equal(codec.decode_actions(message), actions, strict=True)


def test_layout_of_a_step():
    spec = EnvSpec({"b": ArraySpec((2,), "uint16"), "a": ArraySpec((), "int32")}, DiscreteSpec(3))
    observation = {"b": np.array([[1, 2], [3, 4]], np.uint16), "a": np.array([-1, 7], np.int32)}
    message = StepCodec(spec, 2).encode_step(
        EnvOutput(np.array([1.0, -2.0], np.float32), np.array([False, True]), observation)
    )
    assert message == bytes.fromhex(
        "0a 1a  0000803f 000000c0  00 01  ffffffff 07000000  0100 0200 0300 0400".replace(" ", "")
    )


@pytest.mark.parametrize(
    ("spec", "actions", "layout"),
    [
        (SMALL, np.array([1, 4], np.int32), "0a 08  01000000 04000000"),
        (
            CHOICES,
            np.array([[1, 2, 258], [0, 0, 3]], np.int32),
            "0a 18  01000000 02000000 02010000  " + "00" * 8 + "03000000",
        ),
        (FORCES, np.array([[1.0, 0.5], [-1.5, 4.0]], np.float32), "0a 10  0000803f 0000003f  0000c0bf 00008040"),
        (
            EnvSpec(SMALL.observation, MultiDiscreteSpec((7,))),
            np.array([[5], [6]], np.int32),
            "0a 08 05000000 06000000",
        ),
    ],
    ids=str,
)
def test_layout_of_actions(spec, actions, layout):
    codec, message = StepCodec(spec, 2), bytes.fromhex(layout)
    assert codec.encode_actions(actions) == message
    assert len(message) == codec.actions_bytes
    np.testing.assert_array_equal(codec.decode_actions(message), actions, strict=True)


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


@pytest.mark.parametrize("spec", [SMALL, CHOICES, FORCES], ids=str)
@pytest.mark.parametrize("num_envs", [1, 3, 40])
def test_generated_classes_read_and_write_the_same_actions(spec, num_envs):
    codec = StepCodec(spec, num_envs)
    actions = extreme_and_random_actions(np.random.default_rng(0), spec.action, num_envs)
    assert pb.StepReply.FromString(codec.encode_actions(actions)).payload == actions.tobytes()
    reply = pb.StepReply(payload=actions.tobytes()).SerializeToString()
    np.testing.assert_array_equal(codec.decode_actions(reply), actions, strict=True)


def test_decoded_tensors_are_read_only_views_of_the_message():
    codec = StepCodec(NAMED, 3)
    message = codec.encode_step(random_step(np.random.default_rng(0), NAMED, 3))
    tensors = tensors_of(codec.decode_step(message))
    assert len(tensors) == 4
    for name, tensor in tensors.items():
        assert np.shares_memory(tensor, np.frombuffer(message, np.uint8)), name
        assert not tensor.flags.writeable, name


@pytest.mark.parametrize("spec", [SMALL, CHOICES, FORCES], ids=str)
def test_decoded_actions_are_an_array_of_their_own(spec):
    codec = StepCodec(spec, 3)
    actions = extreme_and_random_actions(np.random.default_rng(0), spec.action, 3)
    decoded = codec.decode_actions(codec.encode_actions(actions))
    assert decoded.flags.writeable
    assert decoded.flags.aligned


def test_actions_that_are_not_contiguous_are_encoded_by_value():
    codec = StepCodec(CHOICES, 4)
    actions = extreme_and_random_actions(np.random.default_rng(0), CHOICES.action, 4)
    strided = np.asfortranarray(actions)
    assert not strided.flags.c_contiguous
    assert codec.encode_actions(strided) == codec.encode_actions(actions)


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


BEFORE_4, AFTER_4 = (float(np.nextafter(np.float32(4), np.float32(to))) for to in (0, 9))
JUST_BELOW_0 = float(np.nextafter(np.float32(0), np.float32(-1)))


@pytest.mark.parametrize(
    ("spec", "actions", "sentence"),
    [
        (SMALL, [-1, 0], r"actions must be in Discrete\(5\), got -1 to 0"),
        (SMALL, [0, 5], r"actions must be in Discrete\(5\), got 0 to 5"),
        (SMALL, [2**31 - 1, 0], r"in Discrete\(5\), got 0 to 2147483647"),
        (SMALL, [-(2**31), 1], r"in Discrete\(5\), got -2147483648 to 1"),
        (CHOICES, [[2, 0, 0], [0, 0, 0]], r"actions must be in MultiDiscrete\(2, 3, 300\), got 0 to 2"),
        (CHOICES, [[0, 0, 0], [0, 3, 0]], r"in MultiDiscrete\(2, 3, 300\), got 0 to 3"),
        (CHOICES, [[1, 2, 300], [1, 1, 1]], r"in MultiDiscrete\(2, 3, 300\), got 1 to 300"),
        (CHOICES, [[1, 2, 299], [1, -1, 1]], r"in MultiDiscrete\(2, 3, 300\), got -1 to 299"),
        (FORCES, [[-1.625, 0], [0, 0]], r"actions must be in Continuous\(-1.5..1.5, 0..4\), got -1.625 to 0"),
        (FORCES, [[1.5, 4], [2, 4]], r"in Continuous\(-1.5..1.5, 0..4\), got 1.5 to 4"),
        (FORCES, [[0, 0], [0, JUST_BELOW_0]], r"in Continuous\(-1.5..1.5, 0..4\), got -1.4.*e-45 to 0"),
        (FORCES, [[0, 0], [0, AFTER_4]], r"in Continuous\(-1.5..1.5, 0..4\), got 0.0 to 4.0000004"),
        (FORCES, [[0, 0], [0, math.nan]], r"in Continuous\(-1.5..1.5, 0..4\), got nan to nan"),
        (FORCES, [[math.inf, 0], [0, 0]], r"in Continuous\(-1.5..1.5, 0..4\), got 0.0 to inf"),
        (FORCES, [[0, -math.inf], [0, 0]], r"in Continuous\(-1.5..1.5, 0..4\), got -inf to 0"),
    ],
    ids=str,
)
def test_actions_must_be_in_the_action_space(spec, actions, sentence):
    codec = StepCodec(spec, 2)
    with pytest.raises(WireError, match=sentence):
        codec.decode_actions(codec.encode_actions(np.array(actions, spec.action.tensor.dtype)))


def test_bounds_belong_to_the_space():
    codec = StepCodec(FORCES, 2)
    actions = np.array([[1.5, BEFORE_4], [-1.5, 4.0]], np.float32)
    np.testing.assert_array_equal(codec.decode_actions(codec.encode_actions(actions)), actions, strict=True)


@pytest.mark.parametrize(
    ("spec", "actions", "sentence"),
    [
        (SMALL, np.zeros(2, np.int64), r"expected actions int32\[2\], got int64\[2\]"),
        (SMALL, np.zeros(3, np.int32), r"expected actions int32\[2\], got int32\[3\]"),
        (SMALL, np.zeros((2, 1), np.int32), r"expected actions int32\[2\], got int32\[2, 1\]"),
        (SMALL, np.zeros(2, np.float32), r"expected actions int32\[2\], got float32\[2\]"),
        (SMALL, [0, 0], r"expected actions as a numpy array int32\[2\], got list"),
        (CHOICES, np.zeros((2, 3), np.int64), r"expected actions int32\[2, 3\], got int64\[2, 3\]"),
        (CHOICES, np.zeros((3, 2), np.int32), r"expected actions int32\[2, 3\], got int32\[3, 2\]"),
        (CHOICES, np.zeros(6, np.int32), r"expected actions int32\[2, 3\], got int32\[6\]"),
        (FORCES, np.zeros((2, 2)), r"expected actions float32\[2, 2\], got float64\[2, 2\]"),
        (FORCES, np.zeros((2, 2), np.int32), r"expected actions float32\[2, 2\], got int32\[2, 2\]"),
        (FORCES, np.zeros((2, 3), np.float32), r"expected actions float32\[2, 2\], got float32\[2, 3\]"),
    ],
    ids=str,
)
def test_wrong_actions_are_not_encoded(spec, actions, sentence):
    with pytest.raises(WireError, match=sentence):
        StepCodec(spec, 2).encode_actions(actions)


@pytest.mark.parametrize(("spec", "size"), [(SMALL, 8), (CHOICES, 24), (FORCES, 16)], ids=str)
def test_actions_of_any_other_size_are_refused(spec, size):
    codec = StepCodec(spec, 2)
    message = codec.encode_actions(np.zeros((2, *spec.action.tensor.shape), spec.action.tensor.dtype))
    assert len(message) == 2 + size
    for length in range(len(message)):
        with pytest.raises(WireError, match=f"expected a payload of {size} bytes, got"):
            codec.decode_actions(message[:length])
    for extra in (b"\0", b"\x0a\x00", message):
        with pytest.raises(WireError, match=f"expected a payload of {size} bytes, got .* after a length that says"):
            codec.decode_actions(message + extra)
    other = StepCodec(spec, 3).encode_actions(np.zeros((3, *spec.action.tensor.shape), spec.action.tensor.dtype))
    with pytest.raises(WireError, match=f"expected a payload of {size} bytes, got {size * 3 // 2}"):
        codec.decode_actions(other)


@pytest.mark.parametrize("spec", [SMALL, NAMED, CHOICES, FORCES], ids=str)
def test_garbage_raises_nothing_but_a_wire_error(spec):
    rng = np.random.default_rng(1)
    codec = StepCodec(spec, 3)
    step = codec.encode_step(random_step(rng, spec, 3))
    actions = codec.encode_actions(extreme_and_random_actions(rng, spec.action, 3))
    refused = 0
    for _ in range(3000):
        for valid, decode in ((step, codec.decode_step), (actions, codec.decode_actions)):
            garbage = bytearray(valid)
            for _ in range(rng.integers(1, 4)):
                garbage[rng.integers(len(garbage))] = rng.integers(256)
            if rng.random() < 0.2:
                garbage = rng.bytes(rng.integers(2 * len(valid)))
            try:
                decoded = decode(bytes(garbage))
            except WireError:
                refused += 1
            else:
                for tensor in [decoded] if isinstance(decoded, np.ndarray) else tensors_of(decoded).values():
                    assert tensor.dtype.kind != "f" or np.isfinite(tensor).all()
    assert refused > 1000


def test_varints():
    assert encode_varint(0) == b"\x00"
    assert encode_varint(127) == b"\x7f"
    assert encode_varint(128) == b"\x80\x01"
    assert encode_varint(300) == b"\xac\x02"


def test_a_group_has_environments():
    with pytest.raises(ValueError, match="at least one environment, got 0"):
        StepCodec(SMALL, 0)
