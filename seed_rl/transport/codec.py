"""The payload of a step, to and from arrays: raw bytes against a spec agreed when the stream opened.

On the wire a step is a protobuf message with the one field `bytes payload = 1`. It is put together and taken apart by
hand, which saves the two copies of the observations that the generated classes would make.

E is the number of environments in the group.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

import numpy as np

from seed_rl.specs import ArraySpec, ContinuousSpec, EnvSpec
from seed_rl.types import EnvOutput

if sys.byteorder != "little":
    raise ImportError("seed_rl.transport needs a little-endian machine: tensors cross the wire as they are in memory")

_TAG = b"\x0a"  # field 1, length-delimited
_FLOAT32 = np.dtype(np.float32)
_BOOL = np.dtype(np.bool_)


class WireError(ValueError):
    """A message that isn't what was agreed; says in one sentence what was expected and what came."""


class _Field(NamedTuple):
    """Where a tensor of the observation stands in a payload."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]  # with the axis of environments
    offset: int  # bytes from the payload's start


class StepCodec:
    """Encodes and decodes the steps of one group of environments."""

    payload_bytes: int
    """Size of a step's tensors."""
    step_bytes: int
    """Size of an encoded step, all of it."""
    actions_bytes: int
    """Size of an encoded reply, all of it."""

    def __init__(self, env_spec: EnvSpec, num_envs: int):
        """
        Args:
          env_spec: of one environment.
          num_envs: E.
        """
        if num_envs < 1:
            raise ValueError(f"a group needs at least one environment, got {num_envs}")
        self._num_envs = num_envs
        action = env_spec.action
        self._action_dtype = np.dtype(action.tensor.dtype)
        self._action_shape = (num_envs, *action.tensor.shape)
        self._action_low: np.ndarray
        self._action_high: np.ndarray
        if isinstance(action, ContinuousSpec):
            self._action_low, self._action_high = np.array(action.low, np.float32), np.array(action.high, np.float32)
        else:
            self._action_low, self._action_high = np.array(0), np.array(action.n) - 1
        self._action_spec = action
        self._named = not isinstance(env_spec.observation, ArraySpec)
        tensors = env_spec.observation_tensors()
        self.payload_bytes = num_envs * (_FLOAT32.itemsize + 1 + sum(spec.nbytes for _, spec in tensors))
        self._header = _TAG + encode_varint(self.payload_bytes)
        self.step_bytes = len(self._header) + self.payload_bytes
        self._actions_header = _TAG + encode_varint(num_envs * action.tensor.nbytes)
        self.actions_bytes = len(self._actions_header) + num_envs * action.tensor.nbytes

        self._done_offset = num_envs * _FLOAT32.itemsize
        offset = self._done_offset + num_envs
        self._fields = []
        for name, spec in tensors:
            self._fields.append(_Field(name, np.dtype(spec.dtype), (num_envs, *spec.shape), offset))
            offset += num_envs * spec.nbytes
        self._names = {name for name, _ in tensors}
        self._checked_names = [field.name for field in self._fields if field.dtype.kind in "fb"]

    def encode_step(self, output: EnvOutput) -> bytes:
        """A step's message.

        Args:
          output: reward float32 [E], done bool [E], observation tensors [E, ...shape] as the spec says: one array, or
            a mapping of arrays by name.

        Raises:
          WireError: a tensor is missing, unexpected, or of another dtype or shape.
        """
        return b"".join((self._header, *(tensor.data for tensor in self._tensors(output))))

    def write_step(self, output: EnvOutput, payload: memoryview) -> None:
        """Writes a step's tensors where a learner reads them.

        Args:
          output: as for `encode_step`.
          payload: `payload_bytes` bytes.

        Raises:
          WireError: as `encode_step`; nothing has been written.
        """
        tensors = self._tensors(output)
        begin = 0
        for tensor in tensors:
            end = begin + tensor.nbytes
            payload[begin:end] = tensor.reshape(-1).view(np.uint8).data
            begin = end

    def decode_step(self, message: bytes) -> EnvOutput:
        """A step from its message.

        Returns:
          reward float32 [E], done bool [E], observation tensors [E, ...shape]: read-only views of the message, in
          general not aligned.

        Raises:
          WireError: the message isn't exactly as long as the spec says or isn't well formed, a bool isn't 0 or 1, or a
            floating-point number isn't finite.
        """
        if len(message) != self.step_bytes or not message.startswith(self._header):
            _refuse_framing(message, self.payload_bytes)
        output = self.views(message, len(self._header))
        self.check(output)
        return output

    def views(self, buffer: bytes | memoryview, offset: int = 0) -> EnvOutput:
        """The tensors of a payload that begins `offset` bytes into a buffer: views, unchecked."""
        reward: np.ndarray = np.ndarray((self._num_envs,), _FLOAT32, buffer, offset)
        done: np.ndarray = np.ndarray((self._num_envs,), _BOOL, buffer, offset + self._done_offset)
        observation: dict[str, np.ndarray] = {
            field.name: np.ndarray(field.shape, field.dtype, buffer, offset + field.offset) for field in self._fields
        }
        return EnvOutput(reward, done, observation if self._named else observation[""])

    def check(self, output: EnvOutput) -> None:
        """
        Raises:
          WireError: a bool isn't 0 or 1, or a floating-point number isn't finite.
        """
        # What is left after stripping every 0 and 1 from both ends is empty unless there is something else.
        if output.done.tobytes().strip(b"\x00\x01"):
            raise WireError("done must be 0 or 1 for each environment, got another value")
        _check_values("reward", output.reward)
        for name in self._checked_names:
            _check_values(name or "observation", output.observation[name] if self._named else output.observation)

    def encode_actions(self, actions: np.ndarray) -> bytes:
        """A reply's message of actions [E, ...] as the spec says.

        Raises:
          WireError: another dtype or shape.
        """
        return self._actions_header + _checked("actions", actions, self._action_dtype, self._action_shape).tobytes()

    def decode_actions(self, message: bytes) -> np.ndarray:
        """Actions [E, ...], as the spec says, from a reply's message; an array of its own.

        Raises:
          WireError: the message isn't exactly as long as the spec says or isn't well formed, or an action isn't in the
            action space.
        """
        if len(message) != self.actions_bytes or not message.startswith(self._actions_header):
            _refuse_framing(message, self.actions_bytes - len(self._actions_header))
        actions = np.frombuffer(message, self._action_dtype, offset=len(self._actions_header)).copy()
        actions = actions.reshape(self._action_shape)
        if not ((actions >= self._action_low) & (actions <= self._action_high)).all():  # nor is a NaN
            raise WireError(f"actions must be in {self._action_spec}, got {actions.min()} to {actions.max()}")
        return actions

    def _tensors(self, output: EnvOutput) -> list[np.ndarray]:
        """A step's tensors in the order of the payload, contiguous."""
        tensors = [
            _checked("reward", output.reward, _FLOAT32, (self._num_envs,)),
            _checked("done", output.done, _BOOL, (self._num_envs,)),
        ]
        if self._named:
            if not isinstance(output.observation, Mapping) or output.observation.keys() != self._names:
                expected = ", ".join(field.name for field in self._fields)
                raise WireError(f"expected observations named {expected}, got {_names_in(output.observation)}")
            tensors += [
                _checked(name, output.observation[name], dtype, shape) for name, dtype, shape, _ in self._fields
            ]
        else:
            _, dtype, shape, _ = self._fields[0]
            tensors.append(_checked("observation", output.observation, dtype, shape))
        return tensors


def encode_varint(value: int) -> bytes:
    """A non-negative integer in protobuf's variable-length encoding."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _checked(name: str, value: object, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise WireError(f"expected {name} as a numpy array {_describe(dtype, shape)}, got {type(value).__name__}")
    if value.dtype != dtype or value.shape != shape:
        raise WireError(f"expected {name} {_describe(dtype, shape)}, got {_describe(value.dtype, value.shape)}")
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _check_values(name: str, tensor: np.ndarray) -> None:
    if tensor.dtype.kind == "b":
        if tensor.view(np.uint8).max() > 1:
            raise WireError(f"{name} must hold only 0 and 1, got another value")
    elif not np.isfinite(tensor).all():
        env = int(np.argwhere(~np.isfinite(tensor))[0, 0])
        raise WireError(f"{name} must be finite, got {tensor[env][~np.isfinite(tensor[env])][0]} in environment {env}")


def _describe(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _names_in(observation: object) -> str:
    if isinstance(observation, Mapping):
        return ", ".join(sorted(map(str, observation))) or "none"
    return f"one {type(observation).__name__}"


def _refuse_framing(message: bytes, payload_bytes: int) -> NoReturn:
    """Says what is wrong with a message that should hold `payload_bytes` and doesn't."""
    expected = f"expected a payload of {payload_bytes} bytes"
    if not message:
        raise WireError(f"{expected}, got an empty message")
    if not message.startswith(_TAG):
        raise WireError(f"{expected} in field 1, got a message that begins with byte 0x{message[0]:02x}")
    size = 0
    for index, byte in enumerate(message[1:6]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise WireError(f"{expected}, got a length that doesn't end within 5 bytes")
    if size != payload_bytes:
        raise WireError(f"{expected}, got {size}")
    body = len(message) - 2 - index
    if body != payload_bytes:
        raise WireError(f"{expected}, got {body} after a length that says {size}")
    raise WireError(f"{expected}, got its length in {index + 1} bytes instead of the shortest form")
