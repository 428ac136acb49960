"""The handshake's messages: round trips, and refusals that name what was expected."""

import contextlib
import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seed_rl.specs import (
    ActorSettings,
    ArraySpec,
    ContinuousSpec,
    DiscreteSpec,
    EnvDescription,
    EnvSpec,
    GroupLease,
    Lease,
    MultiDiscreteSpec,
)
from seed_rl.transport import messages
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.protocol import WireError
from tests.transport import strategies

SETTINGS = ActorSettings(EnvDescription("atari", {"game": "pong", "sizes": (1, 2)}), 2, 32)
SPEC = EnvSpec({"rgb": ArraySpec((84, 84, 3), "uint8"), "depth": ArraySpec((), "float32")}, DiscreteSpec(18))
OTHERS = [
    EnvSpec(SPEC.observation, MultiDiscreteSpec((3, 1, 7))),
    EnvSpec(ArraySpec((3,), "float32"), ContinuousSpec((-2.0, 0.0), (2.0, 0.5))),
]
LEASE = Lease("abc", (GroupLease((0, 1, 2), seed=7), GroupLease((5, 4), seed=2**31 - 3)))

SIZES = {"num_groups": 2, "envs_per_group": 32}

scalars = (
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
options = st.one_of(*scalars, *(st.lists(scalar, max_size=3).map(tuple) for scalar in scalars))
seeded = settings(derandomize=True, database=None, deadline=None)


@given(
    st.dictionaries(strategies.names, options),
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.none() | strategies.env_specs,
)
@seeded
def test_settings_survive_the_round_trip(options, num_groups, envs_per_group, env_spec):
    sent = ActorSettings(EnvDescription("atari", options), num_groups, envs_per_group, env_spec)
    received = messages.read_describe_reply(messages.describe_reply(sent))
    assert received == sent
    for name, value in options.items():  # True == 1 in Python
        assert repr(received.env.options[name]) == repr(value)


nested = st.recursive(
    st.builds(pb.OptionValue, int_value=st.integers(0, 9)) | st.builds(pb.OptionValue),
    lambda inner: st.lists(inner, max_size=3).map(lambda values: pb.OptionValue(list_value={"values": values})),
)


@given(nested)
@seeded
def test_an_option_is_data_of_one_level_or_refused(sent):
    reply = pb.DescribeReply(protocol_version=5, env={"suite": "gym", "options": {"x": sent}}, **SIZES)
    values = [sent.int_value] if sent.HasField("int_value") else list(sent.list_value.values)
    is_data = sent.WhichOneof("kind") and all(value.HasField("int_value") for value in sent.list_value.values)
    with contextlib.nullcontext() if is_data else pytest.raises(WireError, match="^option x "):
        (received,) = messages.read_describe_reply(reply.SerializeToString()).env.options.values()
        expected = [value if isinstance(value, int) else value.int_value for value in values]
        assert (list(received) if isinstance(received, tuple) else [received]) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3))
@seeded
def test_every_environment_of_a_lease_has_a_seed_that_it_takes(seed, env_ids):
    reply = pb.JoinReply(session="abc", groups=[{"env_ids": env_ids, "seed": seed}])
    fits = seed >= 0 and seed + len(env_ids) < 2**31
    with contextlib.nullcontext() if fits else pytest.raises(WireError, match="expected a seed in"):
        assert messages.read_join_reply(reply.SerializeToString(), [len(env_ids)]).groups[0].seed == seed


@given(strategies.env_specs)
@seeded
def test_spaces_survive_the_round_trip(spec):
    run_id, received, sizes = messages.read_join_request(messages.join_request("run", spec, [3, 2]))
    assert (run_id, received, sizes) == ("run", spec, (3, 2))
    assert type(received.action) is type(spec.action)


def test_a_lease_survives_the_round_trip():
    assert messages.read_join_reply(messages.join_reply(LEASE), [3, 2]) == LEASE


@pytest.mark.parametrize(
    "value", [None, b"bytes", [1], (1, "a"), (True, 1), ((1,),), {"a": 1}, 2**63, np.float32(1), "\ud800"], ids=repr
)
def test_other_options_are_not_sent(value):
    with pytest.raises(WireError, match="option bad"):
        messages.describe_reply(dataclasses.replace(SETTINGS, env=EnvDescription("atari", {"bad": value})))


DESCRIBE_REPLY = {"protocol_version": 5, "env": {"suite": "atari"}, "num_groups": 2, "envs_per_group": 32}
ONE = pb.OptionValue(int_value=1)


def with_option(*values, **fields):
    option = pb.OptionValue(list_value={"values": values}) if values else pb.OptionValue(**fields)
    return {"env": {"suite": "atari", "options": {"x": option}}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"env": None}, "the name of the suite must be"),
        ({"env": {"suite": "a\n"}}, r"the name of the suite must be 1 to 256 printable ASCII characters, got 'a\\n'"),
        ({"num_groups": 0}, "num_groups must be at least 1, got 0"),
        ({"num_groups": 4097}, "expected up to 4096 groups of up to 65536 environments, got 4097 of 32"),
        ({"envs_per_group": 2**32 - 1}, "expected up to 4096 groups of up to 65536 environments, got 2 of 4294967295"),
        ({"protocol_version": 1}, "expected version 5 of the protocol, the other side has 1: install the same"),
        (with_option(), "option x has no value"),
        (with_option(ONE, pb.OptionValue(bool_value=True)), "option x must be a list of scalars of one kind"),
        (with_option(pb.OptionValue(list_value={"values": [ONE]})), "option x must be a list of scalars"),
    ],
)
def test_bad_settings_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        messages.read_describe_reply(pb.DescribeReply(**{**DESCRIBE_REPLY, **changes}).SerializeToString())


JOIN_REQUEST = {"protocol_version": 5, "run_id": "run", "group_sizes": [3, 2]}


SCALAR, ACTION = pb.TensorSpec(dtype="uint8"), {"discrete": {"n": 2}}
MANY = {str(number): SCALAR for number in range(257)}


def spaces(tensor=None, name="rgb", **action):
    """The fields of an environment's spec with one tensor, by default a scalar."""
    observation = {name: pb.TensorSpec(**tensor) if tensor else SCALAR}
    return {"env_spec": {"observation": observation, **(action or ACTION)}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (spaces({"dtype": "object"}), "dtype must be one of bool, .*, got 'object'"),
        (spaces({"dtype": "bool", "shape": [1] * 9}), "expected up to 8 axes of an observation tensor, got 9"),
        (spaces(name="ü"), "a tensor's name must be 1 to 256 printable"),
        ({"env_spec": {"discrete": {"n": 2}}}, "expected observation tensors, got none"),
        (spaces(discrete=None), "expected an action space, got none"),
        (spaces(multi_discrete={"n": []}), r"needs at least one value, got \(\)"),
        (spaces(continuous={"low": [0], "high": [1, 2]}), r"as many lower as upper bounds, at least one, got \(0.0,\)"),
        ({"group_sizes": []}, r"groups of at least one environment, got sizes \[\]"),
        ({"group_sizes": [3, 0]}, r"groups of at least one environment, got sizes \[3, 0\]"),
        ({"group_sizes": [1] * 2**16}, "expected a JoinRequest of up to 65536 bytes, got"),
        ({"group_sizes": [1] * 513}, "expected up to 512 groups, got 513"),
        ({"env_spec": {"observation": MANY, **ACTION}}, "expected up to 256 observation tensors, got 257"),
        (spaces(multi_discrete={"n": [2] * 1025}), "expected up to 1024 choices of an action, got 1025"),
        (spaces(continuous={"low": [0], "high": [1] * 1025}), "expected up to 1024 choices of an action, got 1025"),
        ({"run_id": ""}, "the run id must be"),
        ({"protocol_version": 0}, "expected version 5 of the protocol, the other side has 0"),
    ],
)
def test_bad_join_requests_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        messages.read_join_request(pb.JoinRequest(**{**JOIN_REQUEST, **spaces(), **changes}).SerializeToString())


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ({"session": "ü", "groups": [{"env_ids": [0]}]}, "the session must be"),
        ({"session": "abc"}, r"expected groups of \[1\] environments, got \[\]"),
        ({"session": "abc", "groups": [{"env_ids": [5, 4]}]}, r"expected groups of \[1\] environments, got \[2\]"),
        ({"session": "abc", "groups": [{"env_ids": [5], "seed": -1}]}, r"a seed in 0 \.\. 2147483646 .*, got -1"),
        ({"session": "abc", "groups": [{"env_ids": [5], "seed": 2**31 - 1}]}, "a seed in .*, got 2147483647"),
    ],
)
def test_bad_leases_are_refused(reply, sentence):
    with pytest.raises(WireError, match=sentence):
        messages.read_join_reply(pb.JoinReply(**reply).SerializeToString(), [1])


HANDSHAKE = [
    (messages.read_describe_request, messages.describe_request("me")),
    (messages.read_describe_reply, messages.describe_reply(SETTINGS)),
    *((messages.read_join_request, messages.join_request("run", spec, [3, 2])) for spec in (SPEC, *OTHERS)),
    (lambda data: messages.read_join_reply(data, [3, 2]), messages.join_reply(LEASE)),
]


@pytest.mark.parametrize(("read", "valid"), HANDSHAKE, ids=range(len(HANDSHAKE)))
@given(data=st.data())
@settings(seeded, max_examples=200)
def test_garbage_raises_nothing_but_a_value_error(read, valid, data):
    garbage = bytearray(valid)
    changes = st.lists(st.tuples(st.integers(0, len(valid) - 1), st.integers(0, 255)), max_size=4)
    for index, byte in data.draw(changes):
        garbage[index] = byte
    with contextlib.suppress(ValueError):
        read(bytes(garbage[: data.draw(st.integers(0, len(valid)))]))


def test_the_generated_module_is_up_to_date(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    proto = "seed_rl/transport/seed_rl.proto"
    # In a separate process: the compiler's protobuf library and TensorFlow's in one process crash.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={root}", f"--python_out={tmp_path}", proto]
    subprocess.run(command, check=True)

    def descriptor(directory):
        """The one line that doesn't depend on the version of the compiler."""
        lines = (directory / "seed_rl/transport/seed_rl_pb2.py").read_text().splitlines()
        (line,) = [line for line in lines if "AddSerializedFile" in line]
        return line

    assert descriptor(root) == descriptor(tmp_path)
