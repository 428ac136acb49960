"""Steps and actions as bytes: layout, round trips, and what is neither encoded nor decoded."""

import math

import numpy as np
import pytest

from seed_rl.specs import DTYPES, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MixedSpec, MultiDiscreteSpec
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.protocol import WireError
from seed_rl.types import MAX_OBSERVATION, EnvOutput

SMALL = EnvSpec(ArraySpec((2, 3), "uint8"), DiscreteSpec(5))
NAMED = EnvSpec({"pixels": ArraySpec((4,), "uint8"), "alive": ArraySpec((), "bool")}, DiscreteSpec(5))
CHOICES = EnvSpec(ArraySpec((2,), "float32"), MultiDiscreteSpec((2, 3, 300)))
MIXED = EnvSpec(ArraySpec((2,), "float32"), MixedSpec((3, 5), (-1.0,), (0.5,)))
FORCES = EnvSpec(ArraySpec((3,), "float16"), ContinuousSpec((-1.5, 0.0), (1.5, 4.0)))
EVERY_TYPE = EnvSpec({dtype: ArraySpec((2, 3), dtype) for dtype in DTYPES}, DiscreteSpec(5))

ZEROS = EnvOutput(np.zeros(2, np.float32), *np.zeros((2, 2), bool), np.zeros((2, 2, 3), np.uint8))


def step_of(spec, num_envs):
    """A step with various values."""

    def tensor(spec):
        shape = (num_envs, *spec.shape)
        return np.linspace(0, 100, math.prod(shape)).reshape(shape).astype(spec.dtype)

    named = {name: tensor(each) for name, each in spec.observation_tensors()}
    done = tensor(ArraySpec((), "bool"))
    return EnvOutput(tensor(ArraySpec((), "float32")), done, ~done, named.get("", named))


def flat(output):
    """A step's tensors in the order of the payload."""
    observation = output.observation if isinstance(output.observation, dict) else {"": output.observation}
    return [*output[:3], *(observation[name] for name in sorted(observation))]


def assert_same(actual, expected):
    if isinstance(expected.observation, dict):
        assert actual.observation.keys() == expected.observation.keys()
    for tensor, other in zip(flat(actual), flat(expected), strict=True):
        np.testing.assert_array_equal(tensor, other, strict=True)


@pytest.mark.parametrize("num_envs", [1, 40, 300])  # the header takes up to three more bytes
@pytest.mark.parametrize("spec", [SMALL, EVERY_TYPE], ids=["one tensor", "every type"])
def test_a_step_survives_the_round_trip_in_every_form(spec, num_envs):
    codec, output = StepCodec(spec, num_envs), step_of(spec, num_envs)
    payload = b"".join(tensor.tobytes() for tensor in flat(output))
    message = codec.encode_step(output)
    assert message == pb.StepRequest(payload=payload).SerializeToString(), "protobuf's bytes, without its copies"
    assert (len(payload), len(message)) == (codec.payload_bytes, codec.step_bytes)
    decoded = codec.decode_step(message)
    assert_same(decoded, output)
    for tensor in flat(decoded):
        assert np.shares_memory(tensor, np.frombuffer(message, np.uint8))
        assert not tensor.flags.writeable
    memory = bytearray(len(payload))
    shared = StepCodec(spec, num_envs, memory=memoryview(memory))
    assert shared.encode_step(output) == b""
    assert memory == payload
    assert_same(shared.decode_step(b""), output)


@pytest.mark.parametrize(
    ("spec", "actions"),
    [
        (SMALL, [0, 4]),
        (CHOICES, [[0, 0, 0], [1, 2, 299]]),
        (FORCES, [[-1.5, 0.0], [1.5, 4.0]]),
        (MIXED, [[2, 4, 0.5], [0, 0, -0.7]]),
    ],
    ids=["one choice", "several choices", "numbers", "choices beside numbers"],
)
def test_actions_up_to_the_bounds_of_their_space_survive_the_round_trip(spec, actions):
    codec, actions = StepCodec(spec, 2), np.array(actions, spec.action.tensor.dtype)
    message = codec.encode_actions(actions)
    assert message == pb.StepReply(payload=actions.tobytes()).SerializeToString()
    assert len(message) == codec.actions_bytes
    decoded = codec.decode_actions(message)
    np.testing.assert_array_equal(decoded, actions, strict=True)
    assert decoded.flags.writeable, "not a view of the message"


def test_layout():
    spec = EnvSpec({"b": ArraySpec((2,), "uint16"), "a": ArraySpec((), "int32")}, MultiDiscreteSpec((2, 300)))
    observation = {"b": np.array([[1, 2], [3, 4]], np.uint16, order="F"), "a": np.array([-1, 7], np.int32)}
    output = EnvOutput(np.array([1.0, -2.0], np.float32), np.array([False, True]), np.array([False, True]), observation)
    codec = StepCodec(spec, 2)
    step = bytes.fromhex("0a 1c  0000803f 000000c0  00 01  00 01  ffffffff 07000000  0100 0200 0300 0400")
    assert codec.encode_step(output) == step
    actions = bytes.fromhex("0a 10  01000000 02010000  00000000 03000000")
    assert codec.encode_actions(np.array([[1, 258], [0, 3]], np.int32, order="F")) == actions


@pytest.mark.parametrize(
    ("spec", "change", "sentence"),
    [
        (SMALL, {"reward": np.zeros(2)}, r"expected reward float32\[2\], got float64\[2\]"),
        (SMALL, {"reward": [0.0, 0.0]}, r"expected reward float32\[2\], got list"),
        (NAMED, {}, "expected observations alive, pixels, got one array"),
        (NAMED, {"observation": dict.fromkeys(["alive", "pixels", 3])}, "got 3, alive, pixels"),
    ],
)
def test_a_wrong_step_and_wrong_actions_are_not_encoded(spec, change, sentence):
    memory = bytearray(24)
    for codec in (StepCodec(spec, 2), StepCodec(spec, 2, memory=memoryview(memory))):
        with pytest.raises(WireError, match=sentence):
            codec.encode_step(ZEROS._replace(**change))
    assert memory == bytes(24)
    with pytest.raises(WireError, match=r"expected actions int32\[2, 3\], got int32\[6\]"):
        StepCodec(CHOICES, 2).encode_actions(np.zeros(6, np.int32))


def test_a_message_of_another_size_or_header_is_refused():
    codec = StepCodec(SMALL, 2)
    valid = [
        (codec.decode_step, codec.encode_step(ZEROS), 26),
        (codec.decode_actions, codec.encode_actions(np.zeros(2, np.int32)), 10),
    ]
    for decode, message, size in valid:
        for wrong in (*(message[:end] for end in range(size)), message + b"\0", message + message):
            got = max(0, len(wrong) - 2)
            with pytest.raises(WireError, match=f"expected a payload of {size - 2} bytes, got {got}"):
                decode(wrong)
        for header in (b"\x12" + message[1:2], b"\x0a\x15"):
            begin = f"begins with bytes {message[:2].hex()}, got {header.hex()}"
            with pytest.raises(WireError, match=begin):
                decode(header + message[2:])


@pytest.mark.parametrize(
    ("spec", "byte", "value", "name"),
    [(SMALL, 2 * 4, 2, "done and last"), (SMALL, 2 * 6 - 1, 128, "done and last"), (NAMED, 2 * 6 + 1, 255, "alive")],
)
def test_bools_must_be_0_or_1(spec, byte, value, name):
    codec = StepCodec(spec, 2)
    payload = bytearray(codec.payload_bytes)
    codec.decode_step(codec.header + payload)
    payload[byte] = value
    with pytest.raises(WireError, match=f"{name} must hold only 0 and 1"):
        codec.decode_step(codec.header + payload)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("reward", math.nan, "reward must be finite, got nan in environment 1, which ends its whole group"),
        ("observation", -math.inf, "observation must be finite, got -inf in environment 1"),
        ("observation", -2e8, r"observation must be in \[-1e\+08, 1e\+08\], got -2e\+08 in environment 1"),
        ("reward", 2e6, r"reward must be in \[-1e\+06, 1e\+06\], got 2e\+06 in environment 1"),
    ],
)
def test_numbers_must_be_finite_and_within_their_bounds(field, value, sentence):
    for codec in (StepCodec(CHOICES, 2), StepCodec(CHOICES, 3).of(2)):
        reward, observation = np.full(2, 1e6, np.float32), np.full((2, 2), -MAX_OBSERVATION, np.float32)
        output = EnvOutput(reward, *np.zeros((2, 2), bool), observation)
        codec.decode_step(codec.encode_step(output))
        getattr(output, field)[1] = value
        with pytest.raises(WireError, match=sentence):
            codec.decode_step(codec.encode_step(output))


def test_observations_named_like_the_outcome_are_checked():
    spec = EnvSpec({"done": ArraySpec((), "float16"), "last": ArraySpec((), "bool")}, SMALL.action)
    codec = StepCodec(spec, 2)
    observation = {"done": np.array([0.0, math.inf], np.float16), "last": np.zeros(2, bool)}
    with pytest.raises(WireError, match="done must be finite, got inf in environment 1"):
        codec.decode_step(codec.encode_step(ZEROS._replace(observation=observation)))


def test_what_an_actor_changes_in_shared_memory_after_the_check_is_not_used():
    spec = EnvSpec({"x": ArraySpec((3,), "float32"), "y": ArraySpec((), "bool")}, SMALL.action)
    memory = bytearray(StepCodec(spec, 2).payload_bytes)
    step = StepCodec(spec, 2, memory=memoryview(memory)).decode_step(b"")
    memory[:] = b"\xff" * len(memory)  # NaN, and bools that are neither 0 nor 1
    for tensor in flat(step):
        assert not tensor.view(np.uint8).any()


JUST_BELOW_0 = float(np.nextafter(np.float32(0), np.float32(-1)))


@pytest.mark.parametrize(
    ("spec", "actions", "sentence"),
    [
        (SMALL, [0, 5], r"actions must be in Discrete\(5\), got 0 to 5"),
        (CHOICES, [[2, 0, 0], [0, 0, 0]], r"actions must be in MultiDiscrete\(2, 3, 300\), got 0 to 2"),
        (FORCES, [[0, 0], [0, JUST_BELOW_0]], r"in Continuous\(-1.5..1.5, 0..4\), got -1.4.*e-45 to 0"),
        (FORCES, [[0, 0], [0, math.nan]], r"in Continuous\(-1.5..1.5, 0..4\), got nan to nan"),
        (
            MIXED,
            [[3, 0, 0], [0, 0, 0]],
            r"actions must be in MultiDiscrete\(3, 5\) \+ Continuous\(-1..0.5\), got 0.0 to 3",
        ),
        (MIXED, [[0, -1, 0], [0, 0, 0]], "got -1.0 to 0.0"),
        (MIXED, [[0, 0, 0.6], [0, 0, 0]], "got 0.0 to 0.6"),
        (MIXED, [[0, 1.5, 0], [0, 0, 0]], r"choices in .* must be whole numbers, got \[\[0.0, 1.5, 0.0\]"),
    ],
    ids=str,
)
def test_actions_must_be_in_the_action_space(spec, actions, sentence):
    codec = StepCodec(spec, 2)
    with pytest.raises(WireError, match=sentence):
        codec.decode_actions(codec.encode_actions(np.array(actions, spec.action.tensor.dtype)))
