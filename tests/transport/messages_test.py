"""The handshake's messages: round trips, and refusals that name what was expected."""

import contextlib
import dataclasses
import math
import pathlib
import random
import subprocess
import sys

import pytest

from seed_rl.specs import (
    DTYPES,
    ActorSettings,
    ArraySpec,
    ContinuousSpec,
    DiscreteSpec,
    EnvDescription,
    EnvSpec,
    GroupLease,
    Lease,
    MixedSpec,
    MultiDiscreteSpec,
)
from seed_rl.transport import messages
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.protocol import WireError
from tests.transport import peers

SPECS = [
    EnvSpec({dtype: ArraySpec((84, 84, 3), dtype) for dtype in DTYPES}, DiscreteSpec(2**31 - 1)),
    EnvSpec({"depth": ArraySpec((), "float32")}, MultiDiscreteSpec((3, 1, 7))),
    EnvSpec(ArraySpec((3,), "float32"), MixedSpec((3, 1), (-2.0,), (2.0,))),
    EnvSpec(ArraySpec((3,), "float32"), ContinuousSpec((-2.0, 0.0), (2.0, 0.5))),
]
OPTIONS = {
    "flag": True,
    "numbers": (0, -(2**63), 2**63 - 1),
    "real": 1.0,
    "reals": (math.inf, 1e-300),
    "text": "ünïcode\n",
    "texts": ("",),
    "nothing": (),
}
SETTINGS = ActorSettings(EnvDescription("atari", OPTIONS), 2, 32)
LEASE = Lease("abc", (GroupLease((0, 1, 2), seed=7), GroupLease((5, 4), seed=2**31 - 3)))


@pytest.mark.parametrize("env_spec", [None, *SPECS], ids=str)
def test_settings_survive_the_round_trip(env_spec):
    sent = dataclasses.replace(SETTINGS, env_spec=env_spec)
    received = messages.read_describe_reply(messages.describe_reply(sent))
    assert received == sent
    assert {name: repr(value) for name, value in received.env.options.items()} == {  # True == 1 in Python
        name: repr(value) for name, value in OPTIONS.items()
    }


def test_a_join_and_its_lease_survive_the_round_trip():
    for spec in SPECS:
        assert messages.read_join_request(messages.join_request("run", spec, [3, 2])) == ("run", spec, (3, 2))
    assert messages.read_join_reply(messages.join_reply(LEASE), [3, 2]) == LEASE


@pytest.mark.parametrize("value", [None, (1, "a"), (True, 1), ((1,),), 2**63, "\ud800"], ids=repr)
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
        ({"env": {"suite": "a\n"}}, r"the name of the suite must be 1 to 256 printable ASCII characters, got 'a\\n'"),
        ({"num_groups": 0}, "num_groups must be at least 1, got 0"),
        ({"num_groups": 4097}, "expected up to 4096 groups of up to 65536 environments, got 4097 of 32"),
        ({"protocol_version": 1}, "expected version 5 of the protocol, the other side has 1: install the same"),
        (with_option(), "option x has no value"),
        (with_option(ONE, pb.OptionValue(bool_value=True)), "option x must be a list of scalars of one kind"),
    ],
)
def test_bad_settings_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        messages.read_describe_reply(pb.DescribeReply(**{**DESCRIBE_REPLY, **changes}).SerializeToString())


JOIN_REQUEST = {"protocol_version": 5, "run_id": "run", "group_sizes": [3, 2]}
SCALAR, ACTION = pb.TensorSpec(dtype="uint8"), {"discrete": {"n": 2}}


def spaces(tensor=None, name="rgb", **action):
    """The fields of an environment's spec with one tensor, by default a scalar."""
    observation = {name: pb.TensorSpec(**tensor) if tensor else SCALAR}
    return {"env_spec": {"observation": observation, **(action or ACTION)}}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (spaces({"dtype": "object"}), "dtype must be one of bool, .*, got 'object'"),
        (spaces({"dtype": "bool", "shape": [1] * 9}), "expected up to 8 axes of an observation tensor, got 9"),
        ({"env_spec": {"discrete": {"n": 2}}}, "expected observation tensors, got none"),
        (spaces(discrete=None), "expected an action space, got none"),
        ({"group_sizes": []}, r"groups of at least one environment, got sizes \[\]"),
        ({"group_sizes": [1] * 2**16}, "expected a JoinRequest of up to 65536 bytes, got"),
        ({"group_sizes": [1] * 513}, "expected up to 512 groups, got 513"),
        (spaces(continuous={"low": [0], "high": [1] * 1025}), "expected up to 1024 choices of an action, got 1025"),
        ({"run_id": ""}, "the run id must be"),
    ],
)
def test_bad_join_requests_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        messages.read_join_request(pb.JoinRequest(**{**JOIN_REQUEST, **spaces(), **changes}).SerializeToString())


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ({"session": "ü", "groups": [{"env_ids": [0]}]}, "the session must be"),
        ({"session": "abc", "groups": [{"env_ids": [5, 4]}]}, r"expected groups of \[1\] environments, got \[2\]"),
        ({"session": "abc", "groups": [{"env_ids": [5], "seed": 2**31 - 1}]}, "a seed in .*, got 2147483647"),
    ],
)
def test_bad_leases_are_refused(reply, sentence):
    with pytest.raises(WireError, match=sentence):
        messages.read_join_reply(pb.JoinReply(**reply).SerializeToString(), [1])


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([(2, "x", 1.0)], r"expected a finite number of environment 0 \.\. 1, got env: 2"),
        ([(0, "x", math.nan)], "expected a finite number"),
        ([(0, "a\n", 1.0)], "the name of a number must be 1 to 256 printable ASCII characters, got"),
    ],
)
def test_bad_numbers_about_episodes_are_refused(numbers, sentence):
    with pytest.raises(WireError, match=sentence):
        messages.read_episode_numbers(messages.episode_numbers(numbers), 2)


def test_numbers_of_many_episodes_fit_into_a_request():
    numbers = [(env, f"{name:064}", 0.5) for env in range(64_000, 64_100) for name in range(32)]
    assert messages.read_episode_numbers(messages.episode_numbers(numbers), 65_536) == numbers[:800]


HANDSHAKE = [
    (messages.read_describe_request, messages.describe_request("me")),
    (messages.read_describe_reply, messages.describe_reply(SETTINGS)),
    *((messages.read_join_request, messages.join_request("run", spec, [3, 2])) for spec in SPECS),
    (lambda data: messages.read_join_reply(data, [3, 2]), messages.join_reply(LEASE)),
    (lambda data: messages.read_episode_numbers(data, 2), messages.episode_numbers([(1, "is_success", 1.0)])),
]


@pytest.mark.parametrize(("read", "valid"), HANDSHAKE, ids=range(len(HANDSHAKE)))
def test_garbage_raises_nothing_but_a_value_error(read, valid):
    read(valid)
    rng = random.Random(0)
    for _ in range(300):
        with contextlib.suppress(ValueError):
            read(peers.mutated(valid, rng))


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
