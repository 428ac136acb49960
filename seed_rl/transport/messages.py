"""The messages of the handshake, from dataclasses to bytes and back. Only this module uses protobuf's classes.

Peers aren't trusted: every `read_...` function raises a ValueError for malformed bytes, another protocol version or
invalid values. The dataclasses check their own values; the remaining checks are here.
"""

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from google.protobuf import message as protobuf

from seed_rl import specs
from seed_rl.system.files import explaining
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.protocol import MAX_GROUPS, VersionMismatch, WireError

PROTOCOL_VERSION = 5
"""Incremented with every change to the messages or their meaning, except new fields that peers may ignore."""

MAX_REQUEST_BYTES = 1 << 16
"""Largest request in the handshake; reading it and comparing its spaces delays all other actors."""

_MAX_REPLY_BYTES = 1 << 20
_MAX_TEXT = 256  # characters of a name
_MAX_TENSORS, _MAX_RANK, _MAX_CHOICES = 256, 8, 1024  # of the spaces
_MOST_GROUPS, _MAX_GROUP_SIZE = 1 << 12, 1 << 16  # an actor starts threads and environments at a learner's request
_MAX_NUMBERS = 1024  # about the episodes that end in a step
_SENT_NUMBERS = 800  # with names of 64 characters, as many as fit into a request
_MAX_SEED = 2**31 - 1  # of an environment

_OPTION_FIELDS: dict[type, str] = {bool: "bool_value", int: "int_value", float: "float_value", str: "string_value"}

# An action's message has the fields of its dataclass.
_ACTIONS: dict[str, Any] = {
    "discrete": specs.DiscreteSpec,
    "multi_discrete": specs.MultiDiscreteSpec,
    "continuous": specs.ContinuousSpec,
    "mixed": specs.MixedSpec,
}

_Message = TypeVar("_Message", bound=protobuf.Message)


def describe_request(client: str) -> bytes:
    """Encode the request of an actor that calls itself `client`."""
    return pb.DescribeRequest(protocol_version=PROTOCOL_VERSION, client=client).SerializeToString()


def read_describe_request(data: bytes) -> str:
    """Decode a request; return the actor's name, for the learner's log."""
    return _parse(pb.DescribeRequest, data).client


def describe_reply(settings: specs.ActorSettings) -> bytes:
    """Encode the learner's settings; raise WireError if an option can't be sent."""
    return pb.DescribeReply(
        protocol_version=PROTOCOL_VERSION,
        env=_env_message(settings.env),
        num_groups=settings.num_groups,
        envs_per_group=settings.envs_per_group,
        env_spec=_env_spec_message(settings.env_spec) if settings.env_spec else None,
        eval_env=_env_message(settings.eval_env) if settings.eval_env else None,
        first_eval_id=settings.first_eval_id,
    ).SerializeToString()


def read_describe_reply(data: bytes) -> specs.ActorSettings:
    """Decode the learner's settings."""
    reply = _parse(pb.DescribeReply, data)
    if reply.num_groups > _MOST_GROUPS or reply.envs_per_group > _MAX_GROUP_SIZE:
        expected = f"up to {_MOST_GROUPS} groups of up to {_MAX_GROUP_SIZE} environments"
        raise WireError(f"expected {expected}, got {reply.num_groups} of {reply.envs_per_group}")
    spec = _env_spec(reply.env_spec) if reply.HasField("env_spec") else None
    own = _env(reply.eval_env) if reply.HasField("eval_env") else None
    return specs.ActorSettings(_env(reply.env), reply.num_groups, reply.envs_per_group, spec, own, reply.first_eval_id)


def join_request(run_id: str, env_spec: specs.EnvSpec, group_sizes: Sequence[int]) -> bytes:
    """Encode the request for room for groups of these sizes."""
    spec = _env_spec_message(env_spec)
    request = pb.JoinRequest(protocol_version=PROTOCOL_VERSION, run_id=run_id, env_spec=spec, group_sizes=group_sizes)
    return request.SerializeToString()


def read_join_request(data: bytes) -> tuple[str, specs.EnvSpec, tuple[int, ...]]:
    """Decode a request; return the run id, the spaces and the sizes of the groups (at least one)."""
    request = _parse(pb.JoinRequest, data)
    _check_count(request.group_sizes, MAX_GROUPS, "groups")
    sizes = tuple(request.group_sizes)
    if not sizes or min(sizes) < 1:
        raise WireError(f"expected groups of at least one environment, got sizes {list(sizes)}")
    return _text("the run id", request.run_id), _env_spec(request.env_spec), sizes


def join_reply(lease: specs.Lease) -> bytes:
    """Encode the answer to a successful join."""
    groups = [pb.GroupLease(env_ids=group.env_ids, seed=group.seed) for group in lease.groups]
    return pb.JoinReply(session=lease.session, groups=groups).SerializeToString()


def read_join_reply(data: bytes, group_sizes: Sequence[int]) -> specs.Lease:
    """Decode the lease for groups of the requested sizes."""
    reply = _parse(pb.JoinReply, data)
    groups = tuple(specs.GroupLease(tuple(group.env_ids), group.seed) for group in reply.groups)
    sizes = [len(group.env_ids) for group in groups]
    if sizes != list(group_sizes):
        raise WireError(f"expected groups of {list(group_sizes)} environments, got {sizes}")
    for group, size in zip(groups, sizes, strict=True):
        if not 0 <= group.seed <= _MAX_SEED - size:
            raise WireError(f"expected a seed in 0 .. {_MAX_SEED - size} for {size} environments, got {group.seed}")
    return specs.Lease(_text("the session", reply.session), groups)


def episode_numbers(numbers: Sequence[tuple[int, str, float]]) -> bytes:
    """Encode the first 800 numbers about ended episodes (index in the group, name, value), to follow a step."""
    sent = [pb.EpisodeNumber(env=env, name=name, value=value) for env, name, value in numbers[:_SENT_NUMBERS]]
    return pb.StepRequest(numbers=sent).SerializeToString()


def read_episode_numbers(data: bytes, num_envs: int) -> list[tuple[int, str, float]]:
    """Decode numbers about episodes of `num_envs` environments."""
    numbers = _parse(pb.StepRequest, data).numbers
    _check_count(numbers, _MAX_NUMBERS, "numbers about episodes")
    for number in numbers:
        if number.env >= num_envs or not math.isfinite(number.value):
            raise WireError(f"expected a finite number of environment 0 .. {num_envs - 1}, got {number}"[:_MAX_TEXT])
    return [(number.env, _text("the name of a number", number.name), number.value) for number in numbers]


def _parse(kind: type[_Message], data: bytes) -> _Message:
    name = kind.DESCRIPTOR.name
    most = MAX_REQUEST_BYTES if name.endswith("Request") else _MAX_REPLY_BYTES
    if len(data) > most:
        raise WireError(f"expected a {name} of up to {most} bytes, got {len(data)}")
    with explaining(WireError, f"expected a {name}, got {len(data)} bytes that aren't one", protobuf.DecodeError):
        message = kind.FromString(data)
    version = getattr(message, "protocol_version", PROTOCOL_VERSION)  # JoinReply has none, because Describe comes first
    if version != PROTOCOL_VERSION:
        sentence = f"expected version {PROTOCOL_VERSION} of the protocol, the other side has {version}"
        raise VersionMismatch(f"{sentence}: install the same version of seed_rl for learner and actors")
    return message


def _env_message(env: specs.EnvDescription) -> pb.EnvDescription:
    options = {name: _option_message(name, value) for name, value in env.options.items()}
    return pb.EnvDescription(suite=env.suite, options=options)


def _env(message: pb.EnvDescription) -> specs.EnvDescription:
    options = {name: _option(name, value) for name, value in sorted(message.options.items())}
    return specs.EnvDescription(_text("the name of the suite", message.suite), options)


def _env_spec_message(env_spec: specs.EnvSpec) -> pb.EnvSpec:
    tensors = env_spec.observation_tensors()
    observation = {name: pb.TensorSpec(dtype=spec.dtype, shape=spec.shape) for name, spec in tensors}
    kind = next(kind for kind, spec in _ACTIONS.items() if isinstance(env_spec.action, spec))
    action: dict[str, Any] = {kind: dataclasses.asdict(env_spec.action)}
    return pb.EnvSpec(observation=observation, **action)


def _env_spec(message: pb.EnvSpec) -> specs.EnvSpec:
    kind = message.WhichOneof("action")
    if kind is None:
        raise WireError("expected an action space, got none")
    spec, sent = _ACTIONS[kind], getattr(message, kind)
    values = [getattr(sent, field.name) for field in dataclasses.fields(spec)]
    for choices in values:
        if not isinstance(choices, int):
            _check_count(choices, _MAX_CHOICES, "choices of an action")
    action = spec(*(value if isinstance(value, int) else tuple(value) for value in values))

    _check_count(message.observation, _MAX_TENSORS, "observation tensors")
    tensors = {}
    for name, tensor in sorted(message.observation.items()):
        _check_count(tensor.shape, _MAX_RANK, "axes of an observation tensor")
        tensors[name] = specs.ArraySpec(tuple(tensor.shape), tensor.dtype)
    if not tensors:
        raise WireError("expected observation tensors, got none")
    if list(tensors) == [""]:
        return specs.EnvSpec(tensors[""], action)
    return specs.EnvSpec({_text("a tensor's name", name): spec for name, spec in tensors.items()}, action)


def _check_count(values: Collection[object], most: int, what: str) -> None:
    if len(values) > most:
        raise WireError(f"expected up to {most} {what}, got {len(values)}")


def _option_message(name: str, value: specs.Option) -> pb.OptionValue:
    elements = value if isinstance(value, tuple) else (value,)
    kinds = {type(element) for element in elements}
    if len(kinds) > 1 or not kinds <= _OPTION_FIELDS.keys():
        raise WireError(f"option {name} must be a bool, int, float, str or a tuple of one of them, got {value!r}")
    with explaining(WireError, f"option {name} can't be sent", ValueError):
        scalars = [pb.OptionValue(**{_OPTION_FIELDS[type(element)]: element}) for element in elements]
    return pb.OptionValue(list_value=pb.OptionList(values=scalars)) if isinstance(value, tuple) else scalars[0]


def _option(name: str, message: pb.OptionValue) -> specs.Option:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError(f"option {name} has no value")
    if kind != "list_value":
        return getattr(message, kind)
    elements = tuple(_option(name, value) for value in message.list_value.values)
    if len({type(element) for element in elements}) > 1 or tuple in map(type, elements):
        raise WireError(f"option {name} must be a list of scalars of one kind")
    return elements


def _text(what: str, value: str) -> str:
    """Return a name that may appear in logs and metadata."""
    if not value or len(value) > _MAX_TEXT or not value.isascii() or not value.isprintable():
        raise WireError(f"{what} must be 1 to {_MAX_TEXT} printable ASCII characters, got {value[:_MAX_TEXT]!r}")
    return value
