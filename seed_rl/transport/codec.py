"""The encoding of a step's tensors: raw arrays whose spec both sides agree on before a stream opens.

On the wire a step is a protobuf message with a single field, `bytes payload = 1`. The header is written and checked by
hand because the generated classes would copy the observations twice.

E is the number of environments in the group.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.specs import ArraySpec, EnvSpec, MixedSpec, bounds_of
from seed_rl.transport.protocol import ALL_IN_MEMORY, SOME_IN_MEMORY, WireError
from seed_rl.types import MAX_OBSERVATION, MAX_REWARD, EnvOutput

if sys.byteorder != "little":
    raise ImportError("seed_rl.transport needs a little-endian machine: tensors are sent as they are in memory")


class _Field(NamedTuple):
    """A tensor of all environments and its position in a payload."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]  # [E, ...]
    begin: int  # bytes from the payload's start

    def check(self, tensor: object) -> None:
        """Raise a WireError unless this is an array of the field's dtype and shape."""
        if not isinstance(tensor, np.ndarray) or tensor.dtype != self.dtype or tensor.shape != self.shape:
            got = f"{tensor.dtype}{list(tensor.shape)}" if isinstance(tensor, np.ndarray) else type(tensor).__name__
            raise WireError(f"expected {self.name} {self.dtype}{list(self.shape)}, got {got}")


class StepCodec:
    """Encodes and decodes the steps of one group of E = `num_envs` environments, checking both.

    A step's tensors are reward float32 [E], done and last bool [E], and the observation [E, ...shape] as in the spec:
    one array, or a mapping from names to arrays. Actions are [E, ...] as in the spec.

    With memory that actor and learner share, steps are written and read there, and messages hold no data.

    Encoding raises a WireError if a tensor is missing, unexpected, or has the wrong dtype or shape. Decoding raises one
    if the message has the wrong size or header, or holds a bool that isn't 0 or 1, a floating-point number beyond its
    bound, or an action outside the action space.
    """

    def __init__(
        self, env_spec: EnvSpec, num_envs: int, memory: memoryview | None = None, in_memory: bytes = ALL_IN_MEMORY
    ):
        """`in_memory` is the message of a step in shared memory."""
        self.num_envs = num_envs
        self._env_spec = env_spec
        observation = env_spec.observation_tensors()
        # None: the observation is one array.
        self._names = None if isinstance(env_spec.observation, ArraySpec) else [name for name, _ in observation]
        self._fields: list[_Field] = []
        self.payload_bytes = 0
        """Size of a step's tensors, in bytes."""
        flag = ArraySpec((), "bool")
        outcome = (("reward", ArraySpec((), "float32")), ("done", flag), ("last", flag))
        for name, spec in (*outcome, *observation):
            shape = (num_envs, *spec.shape)
            self._fields.append(_Field(name or "observation", np.dtype(spec.dtype), shape, self.payload_bytes))
            self.payload_bytes += num_envs * spec.nbytes
        # Observation tensors with values to check.
        self._checked = [index for index in range(3, len(self._fields)) if self._fields[index].dtype.kind in "fb"]
        self._memory = memory
        self._views = None if memory is None else self._views_of(memory, 0)
        self.header = _header(self.payload_bytes) if memory is None else in_memory
        """Header of an encoded step; with shared memory the whole message."""
        self.step_bytes = len(self.header) + (self.payload_bytes if memory is None else 0)
        """Size of an encoded step in bytes, header included."""

        self._action_spec = action = env_spec.action
        self._actions = _Field("actions", np.dtype(action.tensor.dtype), (num_envs, *action.tensor.shape), 0)
        self._actions_header = _header(num_envs * action.tensor.nbytes)
        self.actions_bytes = len(self._actions_header) + num_envs * action.tensor.nbytes
        """Size of an encoded reply in bytes, header included."""
        self._action_low, self._action_high = bounds_of(action)
        self._num_whole = len(action.n) if isinstance(action, MixedSpec) else 0

    def of(self, num_envs: int) -> StepCodec:
        """Return the codec for steps of `num_envs` of the group's environments: this one, unless they are fewer."""
        if not 0 < num_envs < self.num_envs:
            return self
        return StepCodec(self._env_spec, num_envs, self._memory, SOME_IN_MEMORY)

    def encode_step(self, output: EnvOutput) -> bytes:
        """Encode a step as a message, or write it into shared memory; on an error, write nothing."""
        tensors = self.tensors(output)
        if self._views is None:
            return b"".join((self.header, *(np.ascontiguousarray(tensor).data for tensor in tensors)))
        for view, tensor in zip(self._views, tensors, strict=True):
            view[...] = tensor
        return self.header

    def decode_step(self, message: bytes) -> EnvOutput:
        """Decode a step: read-only views into the message, in general not aligned, or into shared memory.

        Another process may change shared memory at any time, so tensors whose values are checked are copied first. Any
        value is valid in the others, such as images.
        """
        if self._views is None:
            _check_framing(message, self.header, self.step_bytes)
            return self._checked_step(self._views_of(message, len(self.header)))
        if message != self.header:
            raise WireError(f"expected an empty message for a step in shared memory, got {len(message)} bytes")
        copied = (0, 1, 2, *self._checked)
        return self._checked_step([view.copy() if index in copied else view for index, view in enumerate(self._views)])

    def _views_of(self, buffer: bytes | memoryview, offset: int) -> list[np.ndarray]:
        """Return views of the tensors in a payload that begins `offset` bytes into a buffer."""
        return [np.ndarray(shape, dtype, buffer, offset + begin) for _, dtype, shape, begin in self._fields]

    def _checked_step(self, tensors: Sequence[np.ndarray]) -> EnvOutput:
        """Check the tensors of a step, given in the order of the payload, and return the step."""
        reward, done, last, *observation = tensors
        # Stripping 0 and 1 from both ends is faster than numpy for so few bytes.
        if (done.tobytes() + last.tobytes()).strip(b"\x00\x01"):
            raise WireError("done and last must hold only 0 and 1, got another value")
        _check_magnitude("reward", reward, MAX_REWARD)
        for index in self._checked:
            name, tensor = self._fields[index].name, tensors[index]
            if tensor.dtype.kind == "f":
                _check_magnitude(name, tensor, MAX_OBSERVATION)
            elif tensor.view(np.uint8).max() > 1:
                raise WireError(f"{name} must hold only 0 and 1, got another value")
        if self._names is None:
            return EnvOutput(reward, done, last, observation[0])
        return EnvOutput(reward, done, last, dict(zip(self._names, observation, strict=True)))

    def encode_actions(self, actions: np.ndarray) -> bytes:
        self._actions.check(actions)
        return self._actions_header + actions.tobytes()

    def decode_actions(self, message: bytes) -> np.ndarray:
        """Decode the actions of a reply into a new array."""
        _check_framing(message, self._actions_header, self.actions_bytes)
        actions = np.frombuffer(message, self._actions.dtype, offset=len(self._actions_header)).copy()
        actions = actions.reshape(self._actions.shape)
        if not ((actions >= self._action_low) & (actions <= self._action_high)).all():  # False for a NaN
            raise WireError(f"actions must be in {self._action_spec}, got {actions.min()} to {actions.max()}")
        if self._num_whole and (actions[:, : self._num_whole] % 1).any():
            raise WireError(f"choices in {self._action_spec} must be whole numbers, got {actions.tolist()}")
        return actions

    def tensors(self, output: EnvOutput) -> tuple[np.ndarray, ...]:
        """Return a step's tensors in the order of the payload, or raise a WireError for a wrong dtype or shape."""
        observation: Any = output.observation
        parts: Sequence[Any] = [observation]
        if self._names is not None:
            if not isinstance(observation, Mapping) or set(observation) != set(self._names):
                names = sorted(map(str, observation)) if isinstance(observation, Mapping) else ["one array"]
                raise WireError(f"expected observations {', '.join(self._names)}, got {', '.join(names) or 'none'}")
            parts = [observation[name] for name in self._names]
        tensors: tuple[Any, ...] = (output.reward, output.done, output.last, *parts)
        for tensor, field in zip(tensors, self._fields, strict=True):
            field.check(tensor)
        return tensors


def _header(payload_bytes: int) -> bytes:
    """Return the header of a protobuf message with field 1 of this size: the field's tag and the length as a varint."""
    header = bytearray(b"\x0a")
    while payload_bytes >= 0x80:
        header.append(payload_bytes & 0x7F | 0x80)
        payload_bytes >>= 7
    header.append(payload_bytes)
    return bytes(header)


def _check_framing(message: bytes, header: bytes, size: int) -> None:
    if len(message) != size:
        payload = size - len(header)  # what the peer knows about; the header is protobuf's
        raise WireError(f"expected a payload of {payload} bytes, got {max(0, len(message) - len(header))}")
    if not message.startswith(header):
        begin = message[: len(header)].hex()
        raise WireError(f"expected a message that begins with bytes {header.hex()}, got {begin}")


def _check_magnitude(name: str, tensor: np.ndarray, bound: float) -> None:
    if float(np.abs(tensor).max()) <= bound:  # False for a NaN
        return
    beyond = ~(np.abs(tensor).astype(float) <= bound)  # in float16 the bound would be infinite
    value, env = tensor[beyond][0], np.argwhere(beyond)[0, 0]
    allowed = f"in [-{bound:g}, {bound:g}]" if np.isfinite(value) else "finite"
    raise WireError(f"{name} must be {allowed}, got {value:g} in environment {env}, which ends its whole group")
