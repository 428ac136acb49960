from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("protocol_version", "client")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    client: str
    def __init__(self, protocol_version: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("protocol_version", "env", "num_groups", "envs_per_group", "env_spec", "eval_env", "first_eval_id")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    NUM_GROUPS_FIELD_NUMBER: _ClassVar[int]
    ENVS_PER_GROUP_FIELD_NUMBER: _ClassVar[int]
    ENV_SPEC_FIELD_NUMBER: _ClassVar[int]
    EVAL_ENV_FIELD_NUMBER: _ClassVar[int]
    FIRST_EVAL_ID_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    env: EnvDescription
    num_groups: int
    envs_per_group: int
    env_spec: EnvSpec
    eval_env: EnvDescription
    first_eval_id: int
    def __init__(self, protocol_version: _Optional[int] = ..., env: _Optional[_Union[EnvDescription, _Mapping]] = ..., num_groups: _Optional[int] = ..., envs_per_group: _Optional[int] = ..., env_spec: _Optional[_Union[EnvSpec, _Mapping]] = ..., eval_env: _Optional[_Union[EnvDescription, _Mapping]] = ..., first_eval_id: _Optional[int] = ...) -> None: ...

class EnvDescription(_message.Message):
    __slots__ = ("suite", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OptionValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OptionValue, _Mapping]] = ...) -> None: ...
    SUITE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    suite: str
    options: _containers.MessageMap[str, OptionValue]
    def __init__(self, suite: _Optional[str] = ..., options: _Optional[_Mapping[str, OptionValue]] = ...) -> None: ...

class OptionValue(_message.Message):
    __slots__ = ("bool_value", "int_value", "float_value", "string_value", "list_value")
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    bool_value: bool
    int_value: int
    float_value: float
    string_value: str
    list_value: OptionList
    def __init__(self, bool_value: _Optional[bool] = ..., int_value: _Optional[int] = ..., float_value: _Optional[float] = ..., string_value: _Optional[str] = ..., list_value: _Optional[_Union[OptionList, _Mapping]] = ...) -> None: ...

class OptionList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[OptionValue]
    def __init__(self, values: _Optional[_Iterable[_Union[OptionValue, _Mapping]]] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("protocol_version", "run_id", "env_spec", "group_sizes")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ENV_SPEC_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZES_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    run_id: str
    env_spec: EnvSpec
    group_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, protocol_version: _Optional[int] = ..., run_id: _Optional[str] = ..., env_spec: _Optional[_Union[EnvSpec, _Mapping]] = ..., group_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class EnvSpec(_message.Message):
    __slots__ = ("observation", "discrete", "multi_discrete", "continuous", "mixed")
    class ObservationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorSpec
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorSpec, _Mapping]] = ...) -> None: ...
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    DISCRETE_FIELD_NUMBER: _ClassVar[int]
    MULTI_DISCRETE_FIELD_NUMBER: _ClassVar[int]
    CONTINUOUS_FIELD_NUMBER: _ClassVar[int]
    MIXED_FIELD_NUMBER: _ClassVar[int]
    observation: _containers.MessageMap[str, TensorSpec]
    discrete: DiscreteAction
    multi_discrete: MultiDiscreteAction
    continuous: ContinuousAction
    mixed: MixedAction
    def __init__(self, observation: _Optional[_Mapping[str, TensorSpec]] = ..., discrete: _Optional[_Union[DiscreteAction, _Mapping]] = ..., multi_discrete: _Optional[_Union[MultiDiscreteAction, _Mapping]] = ..., continuous: _Optional[_Union[ContinuousAction, _Mapping]] = ..., mixed: _Optional[_Union[MixedAction, _Mapping]] = ...) -> None: ...

class TensorSpec(_message.Message):
    __slots__ = ("dtype", "shape")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class DiscreteAction(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: int
    def __init__(self, n: _Optional[int] = ...) -> None: ...

class MultiDiscreteAction(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, n: _Optional[_Iterable[int]] = ...) -> None: ...

class ContinuousAction(_message.Message):
    __slots__ = ("low", "high")
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    low: _containers.RepeatedScalarFieldContainer[float]
    high: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, low: _Optional[_Iterable[float]] = ..., high: _Optional[_Iterable[float]] = ...) -> None: ...

class MixedAction(_message.Message):
    __slots__ = ("n", "low", "high")
    N_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    n: _containers.RepeatedScalarFieldContainer[int]
    low: _containers.RepeatedScalarFieldContainer[float]
    high: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, n: _Optional[_Iterable[int]] = ..., low: _Optional[_Iterable[float]] = ..., high: _Optional[_Iterable[float]] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("session", "groups")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    session: str
    groups: _containers.RepeatedCompositeFieldContainer[GroupLease]
    def __init__(self, session: _Optional[str] = ..., groups: _Optional[_Iterable[_Union[GroupLease, _Mapping]]] = ...) -> None: ...

class GroupLease(_message.Message):
    __slots__ = ("env_ids", "seed")
    ENV_IDS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    env_ids: _containers.RepeatedScalarFieldContainer[int]
    seed: int
    def __init__(self, env_ids: _Optional[_Iterable[int]] = ..., seed: _Optional[int] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("payload", "numbers")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    numbers: _containers.RepeatedCompositeFieldContainer[EpisodeNumber]
    def __init__(self, payload: _Optional[bytes] = ..., numbers: _Optional[_Iterable[_Union[EpisodeNumber, _Mapping]]] = ...) -> None: ...

class EpisodeNumber(_message.Message):
    __slots__ = ("env", "name", "value")
    ENV_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    env: int
    name: str
    value: float
    def __init__(self, env: _Optional[int] = ..., name: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class StepReply(_message.Message):
    __slots__ = ("payload",)
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    def __init__(self, payload: _Optional[bytes] = ...) -> None: ...
