"""The handshake's dataclasses to and from their protobuf messages, which are checked: the other side may be anyone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf import message as protobuf

from seed_rl.specs import (
    ActionSpec,
    ActorSettings,
    ArraySpec,
    ContinuousSpec,
    DiscreteSpec,
    EnvDescription,
    EnvSpec,
    GroupLease,
    Lease,
    MultiDiscreteSpec,
    ObservationSpec,
    Option,
)
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import WireError

PROTOCOL_VERSION = 2
"""Goes up with every change of the messages or of their meaning."""

# Nobody needs more; what is beyond is a mistake or an attack.
_MAX_TENSORS = 256
_MAX_RANK = 8
_MAX_OBSERVATION_BYTES = 1 << 30  # of one environment
_MAX_ACTIONS = 1 << 20
_MAX_ACTION_PARTS = 1 << 12  # choices or numbers in one action
_MAX_GROUPS = 1024
_MAX_GROUP_SIZE = 1 << 16
_MAX_OPTIONS = 1024  # of a suite, and elements of one
_MAX_TEXT = 256  # characters of a name

_OPTION_FIELDS: dict[type, str] = {bool: "bool_value", int: "int_value", float: "float_value", str: "string_value"}

_Message = TypeVar("_Message", bound=protobuf.Message)


class VersionMismatch(WireError):
    """Learner and actor speak different versions of the protocol."""


def parse(kind: type[_Message], data: bytes) -> _Message:
    """A protobuf message from its bytes.

    Raises:
      WireError: the bytes aren't such a message.
    """
    try:
        return kind.FromString(data)
    except protobuf.DecodeError as error:
        raise WireError(f"expected a {kind.DESCRIPTOR.name}, got {len(data)} bytes that aren't one") from error


def check_version(learner: int, actor: int) -> None:
    """
    Raises:
      VersionMismatch: the two differ.
    """
    if learner != actor:
        raise VersionMismatch(
            f"the learner speaks protocol {learner} and the actor protocol {actor}: "
            f"install the same version of seed_rl on both sides"
        )


def describe_request(client: str) -> pb.DescribeRequest:
    """The request of an actor that calls itself `client`."""
    return pb.DescribeRequest(protocol_version=PROTOCOL_VERSION, client=client)


def describe_reply(settings: ActorSettings) -> pb.DescribeReply:
    """
    Raises:
      WireError: an option can't be sent.
    """
    options = {name: _option_to(name, value) for name, value in settings.env.options.items()}
    return pb.DescribeReply(
        protocol_version=PROTOCOL_VERSION,
        env=pb.EnvDescription(suite=settings.env.suite, options=options),
        num_groups=settings.num_groups,
        envs_per_group=settings.envs_per_group,
    )


def read_describe_reply(reply: pb.DescribeReply) -> ActorSettings:
    """
    Raises:
      WireError: something is missing or out of range, or the versions differ.
    """
    check_version(learner=reply.protocol_version, actor=PROTOCOL_VERSION)
    suite = _text("the name of the suite", reply.env.suite)
    if len(reply.env.options) > _MAX_OPTIONS:
        raise WireError(f"expected at most {_MAX_OPTIONS} options, got {len(reply.env.options)}")
    options = {name: _option_from(name, value) for name, value in sorted(reply.env.options.items())}
    num_groups = _in_range("the number of groups", reply.num_groups, _MAX_GROUPS)
    envs_per_group = _in_range("the environments per group", reply.envs_per_group, _MAX_GROUP_SIZE)
    return ActorSettings(EnvDescription(suite, options), num_groups, envs_per_group)


def join_request(run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int]) -> pb.JoinRequest:
    """The request for room for groups of these sizes."""
    return pb.JoinRequest(
        protocol_version=PROTOCOL_VERSION,
        run_id=run_id,
        env_spec=_env_spec_message(env_spec),
        group_sizes=list(group_sizes),
    )


def read_join_request(request: pb.JoinRequest) -> tuple[str, EnvSpec, tuple[int, ...]]:
    """
    Returns:
      Run id, spaces, sizes of the groups.

    Raises:
      WireError: something is missing or out of range, or the versions differ.
    """
    check_version(learner=PROTOCOL_VERSION, actor=request.protocol_version)
    run_id = _text("the run id", request.run_id)
    _in_range("the number of groups", len(request.group_sizes), _MAX_GROUPS)
    sizes = tuple(_in_range("the size of a group", size, _MAX_GROUP_SIZE) for size in request.group_sizes)
    return run_id, _env_spec_from(request.env_spec), sizes


def join_reply(lease: Lease, env_spec: EnvSpec) -> pb.JoinReply:
    """What a successful join answers."""
    groups = [pb.GroupLease(env_ids=group.env_ids, seed=group.seed) for group in lease.groups]
    return pb.JoinReply(session=lease.session, groups=groups, env_spec=_env_spec_message(env_spec))


def read_join_reply(reply: pb.JoinReply, env_spec: EnvSpec, group_sizes: Sequence[int]) -> Lease:
    """
    Args:
      reply: the learner's.
      env_spec: of the actor's environments.
      group_sizes: what was asked for.

    Raises:
      WireError: something is missing, or the tensors or groups aren't those that were asked for.
    """
    agreed = _env_spec_from(reply.env_spec)
    if agreed != env_spec:
        raise WireError(f"expected streams of {env_spec}, the learner's are of {agreed}")
    session = _text("the session", reply.session)
    sizes = [len(group.env_ids) for group in reply.groups]
    if sizes != list(group_sizes):
        raise WireError(f"expected groups of {list(group_sizes)} environments, got {sizes}")
    ids = [env_id for group in reply.groups for env_id in group.env_ids]
    if len(set(ids)) < len(ids):
        raise WireError("expected every environment id once, got one twice")
    return Lease(session, tuple(GroupLease(tuple(group.env_ids), group.seed) for group in reply.groups))


def _env_spec_message(env_spec: EnvSpec) -> pb.EnvSpec:
    observation = [
        pb.TensorSpec(name=name, dtype=spec.dtype, shape=spec.shape) for name, spec in env_spec.observation_tensors()
    ]
    action = env_spec.action
    if isinstance(action, DiscreteSpec):
        return pb.EnvSpec(observation=observation, discrete=pb.DiscreteAction(n=action.n))
    if isinstance(action, MultiDiscreteSpec):
        return pb.EnvSpec(observation=observation, multi_discrete=pb.MultiDiscreteAction(n=action.n))
    return pb.EnvSpec(observation=observation, continuous=pb.ContinuousAction(low=action.low, high=action.high))


def _env_spec_from(message: pb.EnvSpec) -> EnvSpec:
    tensors = message.observation
    _in_range("the number of observation tensors", len(tensors), _MAX_TENSORS)
    names = [tensor.name for tensor in tensors]
    observation: ObservationSpec
    if names == [""]:
        observation = _array_spec_from("observation", tensors[0])
    else:
        for name in names:
            _text("the name of an observation tensor", name)
        if any(name >= following for name, following in itertools.pairwise(names)):
            raise WireError(f"expected the names of observation tensors in order, each once, got {', '.join(names)}")
        observation = {tensor.name: _array_spec_from(tensor.name, tensor) for tensor in tensors}
    return EnvSpec(observation, _action_spec_from(message))


def _action_spec_from(message: pb.EnvSpec) -> ActionSpec:
    kind = message.WhichOneof("action")
    if kind == "discrete":
        return DiscreteSpec(_in_range("the number of actions", message.discrete.n, _MAX_ACTIONS))
    if kind == "multi_discrete":
        counts = message.multi_discrete.n
        _in_range("the number of choices in an action", len(counts), _MAX_ACTION_PARTS)
        return MultiDiscreteSpec(tuple(_in_range("the number of values of a choice", n, _MAX_ACTIONS) for n in counts))
    if kind == "continuous":
        low, high = message.continuous.low, message.continuous.high
        for bounds in (low, high):
            _in_range("the numbers in an action", len(bounds), _MAX_ACTION_PARTS)
        try:
            return ContinuousSpec(tuple(low), tuple(high))
        except ValueError as error:
            raise WireError(str(error)[:_MAX_TEXT]) from error
    raise WireError("expected an action space, got none")


def _array_spec_from(name: str, message: pb.TensorSpec) -> ArraySpec:
    shape = tuple(message.shape[: _MAX_RANK + 1])
    # Python's integers don't overflow, unlike those of ArraySpec.nbytes.
    if len(shape) > _MAX_RANK or math.prod(shape) * 8 > _MAX_OBSERVATION_BYTES:
        raise WireError(
            f"{name} may have up to {_MAX_RANK} axes and {_MAX_OBSERVATION_BYTES // 8} elements, got "
            f"[{', '.join(map(str, shape))}]"
        )
    try:
        return ArraySpec(shape, message.dtype[:_MAX_TEXT])
    except ValueError as error:
        raise WireError(f"{name}: {error}") from error


def _option_to(name: str, value: Option) -> pb.OptionValue:
    if type(value) in _OPTION_FIELDS:
        message = pb.OptionValue()
        try:
            setattr(message, _OPTION_FIELDS[type(value)], value)
        except ValueError as error:
            raise WireError(f"option {name} can't be sent: {error}") from error
        return message
    if isinstance(value, tuple):
        kinds = {type(element) for element in value}
        if len(kinds) <= 1 and kinds <= _OPTION_FIELDS.keys():
            return pb.OptionValue(list_value=pb.OptionList(values=[_option_to(name, element) for element in value]))
    raise WireError(f"option {name} must be a bool, int, float, str or a tuple of one of them, got {value!r}")


def _option_from(name: str, message: pb.OptionValue) -> Option:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError(f"option {name} has no value")
    if kind != "list_value":
        return getattr(message, kind)
    values = message.list_value.values
    kinds = {value.WhichOneof("kind") for value in values}
    if len(kinds) > 1 or kinds & {None, "list_value"} or len(values) > _MAX_OPTIONS:
        raise WireError(f"option {name} must be a list of up to {_MAX_OPTIONS} scalars of one kind")
    return tuple(_option_from(name, value) for value in values)


def _in_range(what: str, value: int, largest: int) -> int:
    if not 1 <= value <= largest:
        raise WireError(f"{what} must be 1 to {largest}, got {value}")
    return value


def _text(what: str, value: str) -> str:
    """A name that may stand in logs and metadata."""
    if not value or len(value) > _MAX_TEXT or not value.isascii() or not value.isprintable():
        raise WireError(f"{what} must be 1 to {_MAX_TEXT} printable ASCII characters, got {value[:_MAX_TEXT]!r}")
    return value
