"""The handshake's messages: round trips, and refusals that name what was expected."""

import contextlib
import dataclasses
import math
import random

import pytest

from seed_rl import specs
from seed_rl.transport import messages
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.protocol import WireError
from tests.transport import peers

SPECS = [
    specs.EnvSpec({dtype: specs.ArraySpec((84, 84), dtype) for dtype in specs.DTYPES}, specs.DiscreteSpec(2**31 - 1)),
    specs.EnvSpec({"depth": specs.ArraySpec((), "float32")}, specs.MultiDiscreteSpec((3, 1, 7))),
    specs.EnvSpec(specs.ArraySpec((3,), "float32"), specs.MixedSpec((3, 1), (-2.0,), (2.0,))),
    specs.EnvSpec(specs.ArraySpec((3,), "float32"), specs.ContinuousSpec((-2.0, 0.0), (2.0, 0.5))),
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
SETTINGS = specs.ActorSettings(specs.EnvDescription("atari", OPTIONS), 2, 32)
LEASE = specs.Lease("abc", (specs.GroupLease((0, 1, 2), seed=7), specs.GroupLease((5, 4), seed=2**31 - 3)))


@pytest.mark.parametrize("env_spec", [None, *SPECS], ids=str)
def test_settings_survive_the_round_trip(env_spec):
    sent = dataclasses.replace(SETTINGS, env_spec=env_spec)
    sent = dataclasses.replace(sent, eval_env=specs.EnvDescription("atari", {"number": 1}), first_eval_id=32)
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
        messages.describe_reply(dataclasses.replace(SETTINGS, env=specs.EnvDescription("atari", {"bad": value})))


ONE, SCALAR, ACTION = pb.OptionValue(int_value=1), pb.TensorSpec(dtype="uint8"), {"discrete": {"n": 2}}


def with_option(*values):
    option = pb.OptionValue(list_value={"values": values}) if values else pb.OptionValue()
    return {"env": {"suite": "atari", "options": {"x": option}}}


def spaces(tensor=None, **action):
    """The fields of an environment's spec with one tensor, by default a scalar."""
    return {"env_spec": {"observation": {"rgb": pb.TensorSpec(**tensor) if tensor else SCALAR}, **(action or ACTION)}}


DESCRIBE_REPLY = {"protocol_version": 5, "env": {"suite": "atari"}, "num_groups": 2, "envs_per_group": 32}
SETTINGS_OF = (messages.read_describe_reply, pb.DescribeReply, DESCRIBE_REPLY)
JOIN_REQUEST = {"protocol_version": 5, "run_id": "run", "group_sizes": [3, 2], **spaces()}
JOIN_OF = (messages.read_join_request, pb.JoinRequest, JOIN_REQUEST)
LEASE_OF = (lambda data: messages.read_join_reply(data, [1]), pb.JoinReply, {"session": "abc"})
NUMBERS_OF = (lambda data: messages.read_episode_numbers(data, 2), pb.StepRequest, {})


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        (SETTINGS_OF, {"env": {"suite": "a\n"}}, r"printable ASCII characters, got 'a\\n'"),
        (SETTINGS_OF, {"num_groups": 0}, "num_groups"),
        (SETTINGS_OF, {"num_groups": 4097}, "4096 groups"),
        (SETTINGS_OF, {"protocol_version": 1}, "expected version 5"),
        (SETTINGS_OF, with_option(), "option x has no value"),
        (SETTINGS_OF, with_option(ONE, pb.OptionValue(bool_value=True)), "one kind"),
        (JOIN_OF, spaces({"dtype": "object"}), "'object'"),
        (JOIN_OF, spaces({"dtype": "bool", "shape": [1] * 9}), "8 axes"),
        (JOIN_OF, {"env_spec": ACTION}, "expected observation tensors"),
        (JOIN_OF, spaces(discrete=None), "expected an action space"),
        (JOIN_OF, {"group_sizes": []}, "at least one environment"),
        (JOIN_OF, {"group_sizes": [1] * 2**16}, "up to 65536 bytes"),
        (JOIN_OF, {"group_sizes": [1] * 513}, "up to 512 groups"),
        (JOIN_OF, spaces(continuous={"low": [0], "high": [1] * 1025}), "1024 choices"),
        (JOIN_OF, {"run_id": ""}, "run id"),
        (LEASE_OF, {"session": "ü", "groups": [{"env_ids": [0]}]}, "session"),
        (LEASE_OF, {"groups": [{"env_ids": [5, 4]}]}, r"groups of \[1\] environments"),
        (LEASE_OF, {"groups": [{"env_ids": [5], "seed": 2**31 - 1}]}, "seed"),
        (NUMBERS_OF, {"numbers": [{"env": 2, "name": "x"}]}, "environment 0 .. 1, got env: 2"),
        (NUMBERS_OF, {"numbers": [{"name": "x", "value": math.nan}]}, "finite"),
        (NUMBERS_OF, {"numbers": [{"name": "x"}] * 1025}, "up to 1024 numbers"),
    ],
)
def test_what_is_wrong_is_refused(kind, changes, word):
    read, message, fields = kind
    with pytest.raises(ValueError, match=word):
        read(message(**fields | changes).SerializeToString())


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
