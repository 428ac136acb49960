"""The handshake's messages: round trips, and refusals that name what was expected."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

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
from seed_rl.transport.codec import WireError

OPTIONS = {
    "bool": True,
    "int": -(2**63),
    "float": 0.1,
    "string": "Grüße",
    "empty": "",
    "zero": 0,
    "sizes": (1, 2, 3),
    "flags": (True, False),
    "none": (),
}
SETTINGS = ActorSettings(EnvDescription("atari", OPTIONS), 2, 32)
SPEC = EnvSpec({"rgb": ArraySpec((84, 84, 3), "uint8"), "depth": ArraySpec((), "float32")}, DiscreteSpec(18))
CHOICES = EnvSpec(SPEC.observation, MultiDiscreteSpec((3, 1, 7)))
FORCES = EnvSpec(ArraySpec((3,), "float32"), ContinuousSpec((-2.0, 0.0), (2.0, 0.5)))
LEASE = Lease("abc", (GroupLease((0, 1, 2), seed=7), GroupLease((5, 4), seed=-3)))


def test_settings_survive_the_round_trip():
    reply = pb.DescribeReply.FromString(messages.describe_reply(SETTINGS).SerializeToString())
    read = messages.read_describe_reply(reply)
    assert read == SETTINGS
    # True == 1 in Python.
    assert {name: type(value) for name, value in read.env.options.items()} == {
        name: type(value) for name, value in OPTIONS.items()
    }
    assert [type(flag) for flag in read.env.options["flags"]] == [bool, bool]


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        EnvSpec(ArraySpec((3,), "bool"), DiscreteSpec(1)),
        CHOICES,
        EnvSpec(ArraySpec((5, 4), "uint16"), MultiDiscreteSpec((2,))),
        EnvSpec({"only": ArraySpec((), "int64")}, MultiDiscreteSpec((1 << 20,) * 3)),
        FORCES,
        EnvSpec({"a": ArraySpec((2,), "float16"), "Z": ArraySpec((1,), "float64")}, FORCES.action),
        EnvSpec(ArraySpec((3,), "bool"), ContinuousSpec((float(np.float32(-0.1)),), (float(np.float32(3e38)),))),
    ],
    ids=str,
)
def test_spaces_survive_the_round_trip(spec):
    request = pb.JoinRequest.FromString(messages.join_request("run", spec, [3, 2]).SerializeToString())
    run_id, read, sizes = messages.read_join_request(request)
    assert (run_id, read, sizes) == ("run", spec, (3, 2))
    assert str(read) == str(spec)
    assert type(read.action) is type(spec.action)
    assert read.observation_tensors() == spec.observation_tensors()


@pytest.mark.parametrize("spec", [SPEC, CHOICES, FORCES], ids=str)
def test_a_lease_survives_the_round_trip(spec):
    reply = pb.JoinReply.FromString(messages.join_reply(LEASE, spec).SerializeToString())
    assert messages.read_join_reply(reply, spec, [3, 2]) == LEASE


def test_the_order_in_which_tensors_are_named_does_not_matter():
    other = EnvSpec(dict(reversed(SPEC.observation.items())), SPEC.action)
    assert list(other.observation) != list(SPEC.observation)
    request = messages.join_request("run", SPEC, [1])
    assert request == messages.join_request("run", other, [1])
    assert [tensor.name for tensor in request.env_spec.observation] == ["depth", "rgb"]
    assert messages.read_join_reply(messages.join_reply(LEASE, SPEC), other, [3, 2]) == LEASE


@pytest.mark.parametrize(
    "value", [None, b"bytes", [1], (1, "a"), (True, 1), ((1,),), {"a": 1}, 2**63, np.float32(1), "\ud800"], ids=repr
)
def test_other_options_are_not_sent(value):
    settings = dataclasses.replace(SETTINGS, env=EnvDescription("atari", {"bad": value}))
    with pytest.raises(WireError, match="option bad"):
        messages.describe_reply(settings)


def bad_options(**options):
    return lambda reply: [reply.env.options[name].CopyFrom(value) for name, value in options.items()]


def nested():
    scalar = pb.OptionValue(int_value=1)
    return pb.OptionValue(list_value=pb.OptionList(values=[pb.OptionValue(list_value=pb.OptionList(values=[scalar]))]))


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda reply: reply.ClearField("env"), "the name of the suite must be"),
        (lambda reply: setattr(reply, "num_groups", 0), "the number of groups must be 1 to 1024, got 0"),
        (lambda reply: setattr(reply, "envs_per_group", 2**32 - 1), "the environments per group must be .* 4294967295"),
        (lambda reply: setattr(reply, "protocol_version", 1), "learner speaks protocol 1 and the actor protocol 2"),
        (lambda reply: setattr(reply, "protocol_version", 3), "learner speaks protocol 3 and the actor protocol 2"),
        (bad_options(x=pb.OptionValue()), "option x has no value"),
        (bad_options(x=nested()), "option x must be a list of up to 1024 scalars"),
        (
            bad_options(
                x=pb.OptionValue(
                    list_value=pb.OptionList(values=[pb.OptionValue(int_value=1), pb.OptionValue(bool_value=True)])
                )
            ),
            "option x must be .* scalars of one kind",
        ),
    ],
)
def test_bad_settings_are_refused(break_it, sentence):
    reply = messages.describe_reply(SETTINGS)
    break_it(reply)
    with pytest.raises(WireError, match=sentence):
        messages.read_describe_reply(reply)


def set_tensor(**fields):
    def change(request):
        for name, value in fields.items():
            if name == "shape":
                request.env_spec.observation[0].shape[:] = value
            else:
                setattr(request.env_spec.observation[0], name, value)

    return change


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (set_tensor(dtype="complex64"), "dtype must be one of bool, .*, got 'complex64'"),
        (set_tensor(dtype="object"), "got 'object'"),
        (set_tensor(dtype=""), "got ''"),
        (set_tensor(shape=[0, 3]), "depth: shape must hold positive integers"),
        (set_tensor(shape=[2**63, 4]), "depth may have .* elements, got"),
        (set_tensor(shape=[2**32, 2**32]), "depth may have .* elements, got"),
        (set_tensor(shape=[1] * 9), "depth may have up to 8 axes"),
        (set_tensor(name="zzz"), "in order, each once, got zzz, rgb"),
        (set_tensor(name="rgb"), "in order, each once, got rgb, rgb"),
        (set_tensor(name=""), "the name of an observation tensor must be"),
        (set_tensor(name="a\n"), "the name of an observation tensor must be"),
        (lambda request: request.env_spec.ClearField("observation"), "the number of observation tensors must be 1"),
        (lambda request: request.env_spec.ClearField("discrete"), "expected an action space, got none"),
        (lambda request: setattr(request.env_spec.discrete, "n", 0), "the number of actions must be .* got 0"),
        (lambda request: setattr(request.env_spec.discrete, "n", 2**64 - 1), "the number of actions must be"),
        (lambda request: request.ClearField("group_sizes"), "the number of groups must be 1 to 1024, got 0"),
        (lambda request: request.group_sizes.append(0), "the size of a group must be 1 to 65536, got 0"),
        (lambda request: request.group_sizes.extend([1] * 2000), "the number of groups must be 1 to 1024, got 2002"),
        (lambda request: request.ClearField("run_id"), "the run id must be"),
        (lambda request: setattr(request, "protocol_version", 0), "learner speaks protocol 2 and the actor protocol 0"),
    ],
)
def test_bad_join_requests_are_refused(break_it, sentence):
    request = messages.join_request("run", SPEC, [3, 2])
    break_it(request)
    with pytest.raises(WireError, match=sentence):
        messages.read_join_request(request)


def set_action(**kinds):
    """Puts another action space into a request."""

    def change(request):
        for kind, message in kinds.items():
            getattr(request.env_spec, kind).CopyFrom(message)

    return change


def choices(*n):
    return set_action(multi_discrete=pb.MultiDiscreteAction(n=n))


def forces(low, high):
    return set_action(continuous=pb.ContinuousAction(low=low, high=high))


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (set_action(discrete=pb.DiscreteAction()), "the number of actions must be 1 to 1048576, got 0"),
        (choices(), "the number of choices in an action must be 1 to 4096, got 0"),
        (choices(*[2] * 4097), "the number of choices in an action must be 1 to 4096, got 4097"),
        (choices(3, 0), "the number of values of a choice must be 1 to 1048576, got 0"),
        (choices(3, 2**20 + 1), "the number of values of a choice must be 1 to 1048576, got 1048577"),
        (choices(2**64 - 1), "the number of values of a choice must be .* got 18446744073709551615"),
        (forces([], []), "the numbers in an action must be 1 to 4096, got 0"),
        (forces([0] * 4097, [1] * 4097), "the numbers in an action must be 1 to 4096, got 4097"),
        (forces([], [1]), "the numbers in an action must be 1 to 4096, got 0"),
        (forces([0, 0], [1]), r"as many lower as upper bounds are needed, .* got \(0.0, 0.0\) and \(1.0,\)"),
        (forces([0], [1, 1]), r"as many lower as upper bounds are needed, .* got \(0.0,\) and \(1.0, 1.0\)"),
        (forces([0], [1] * 5000), "the numbers in an action must be 1 to 4096, got 5000"),
        (forces([0, 1], [1, 1]), "need finite bounds, the lower one smaller, got 1.0 and 1.0"),
        (forces([0, 2], [1, 1]), "need finite bounds, the lower one smaller, got 2.0 and 1.0"),
        (forces([0], [np.inf]), "need finite bounds, the lower one smaller, got 0.0 and inf"),
        (forces([-np.inf], [1]), "need finite bounds, the lower one smaller, got -inf and 1.0"),
        (forces([np.nan], [1]), "need finite bounds, the lower one smaller, got nan and 1.0"),
        (forces([0], [np.nan]), "need finite bounds, the lower one smaller, got 0.0 and nan"),
    ],
)
@pytest.mark.parametrize("spec", [SPEC, CHOICES, FORCES], ids=str)
def test_bad_action_spaces_are_refused(break_it, sentence, spec):
    request = messages.join_request("run", spec, [3, 2])
    break_it(request)
    with pytest.raises(WireError, match=sentence):
        messages.read_join_request(pb.JoinRequest.FromString(request.SerializeToString()))


def test_a_refusal_is_short_whatever_was_sent():
    request = messages.join_request("run", FORCES, [1])
    forces([0] * 4000, [1] * 4001)(request)
    with pytest.raises(WireError) as error:
        messages.read_join_request(request)
    assert len(str(error.value)) <= 256


@pytest.mark.parametrize("other", [CHOICES, FORCES], ids=str)
def test_a_learner_of_other_spaces_is_refused(other):
    with pytest.raises(WireError, match=re.escape(f"expected streams of {SPEC}, the learner's are of {other}")):
        messages.read_join_reply(messages.join_reply(LEASE, other), SPEC, [3, 2])


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda reply: reply.ClearField("session"), "the session must be"),
        (lambda reply: setattr(reply, "session", "ü"), "the session must be"),
        (lambda reply: reply.ClearField("groups"), r"expected groups of \[3, 2\] environments, got \[\]"),
        (lambda reply: reply.groups[1].env_ids.append(9), r"expected groups of \[3, 2\] environments, got \[3, 3\]"),
        (lambda reply: reply.groups[1].env_ids.__setitem__(0, 2), "got one twice"),
        (
            lambda reply: setattr(reply.env_spec.discrete, "n", 17),
            r"streams of .* Discrete\(18\), the learner's are of",
        ),
    ],
)
def test_bad_leases_are_refused(break_it, sentence):
    reply = messages.join_reply(LEASE, SPEC)
    break_it(reply)
    with pytest.raises(WireError, match=sentence):
        messages.read_join_reply(reply, SPEC, [3, 2])


def test_a_version_mismatch_is_told_from_other_errors():
    with pytest.raises(messages.VersionMismatch, match="install the same version of seed_rl on both sides"):
        messages.check_version(learner=1, actor=2)
    messages.check_version(learner=2, actor=2)


def test_garbage_raises_nothing_but_a_wire_error():
    rng = np.random.default_rng(0)
    handshake = [
        (pb.DescribeReply, messages.describe_reply(SETTINGS), messages.read_describe_reply),
        (pb.JoinRequest, messages.join_request("run", SPEC, [3, 2]), messages.read_join_request),
        (pb.JoinRequest, messages.join_request("run", CHOICES, [3, 2]), messages.read_join_request),
        (pb.JoinRequest, messages.join_request("run", FORCES, [3, 2]), messages.read_join_request),
        (pb.JoinReply, messages.join_reply(LEASE, SPEC), lambda reply: messages.read_join_reply(reply, SPEC, [3, 2])),
    ]
    refused = 0
    for kind, valid, read in handshake:
        valid = valid.SerializeToString()
        for _ in range(2000):
            garbage = bytearray(valid)
            for _ in range(rng.integers(1, 4)):
                garbage[rng.integers(len(garbage))] = rng.integers(256)
            if rng.random() < 0.2:
                garbage = rng.bytes(rng.integers(2 * len(valid)))
            try:
                read(messages.parse(kind, bytes(garbage)))
            except WireError:
                refused += 1
    assert refused > 1000


def test_the_generated_modules_are_up_to_date(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    proto = "seed_rl/transport/seed_rl.proto"
    # In a process of its own: the compiler's protobuf library and TensorFlow's in one process crash.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={root}", f"--python_out={tmp_path}", proto]
    subprocess.run(command, check=True)

    def descriptor(directory):
        """The one line that doesn't depend on the version of the compiler."""
        lines = (directory / "seed_rl/transport/seed_rl_pb2.py").read_text().splitlines()
        (line,) = [line for line in lines if "AddSerializedFile" in line]
        return line

    assert descriptor(root) == descriptor(tmp_path)
