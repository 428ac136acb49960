"""Descriptions of environments that learner and actors exchange: plain data, validated on construction."""

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from seed_rl.errors import UsageError

DTYPES = ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64")
"""The dtypes that tensors may have on the wire."""

_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_WHOLE = 1 << 24  # up to which float32 has all whole numbers
_SMALLEST = 2 * float(np.finfo(np.float32).tiny)  # half of this is not flushed to zero

_KINDS = {(3, "uint8"): "frame", (2, "uint16"): "planes", (1, "uint16"): "words"}

LEGAL_ACTIONS = "legal actions"
"""Name of the observation tensor that holds the action mask; the space keeps it apart from names of environments."""

Option = bool | int | float | str | tuple
"""The value of an environment option: a scalar, or a tuple of scalars of one kind."""


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape (without batch axes) and NumPy dtype name of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if any(not isinstance(n, int) or n < 1 for n in self.shape):
            raise ValueError(f"shape must hold positive integers, got {self.shape!r}")

    @property
    def kind(self) -> str:
        """What the tensor holds, which an environment says by shape and dtype.

        `frame`: an image, uint8 [H, W, C]; frames are stacked over time. `planes`: 16 binary ones, the bits of uint16
        [H, W]. `words`: ids, uint16 [W]. `grid`: numbers of another dtype, such as the pieces on a board, [H, W, C].
        `numbers`: anything else.
        """
        return _KINDS.get((len(self.shape), self.dtype), "grid" if len(self.shape) == 3 else "numbers")

    @property
    def nbytes(self) -> int:
        """Bytes per environment and step."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


ObservationSpec = ArraySpec | Mapping[str, ArraySpec]
"""One tensor, or several keyed by name (sorted by name on the wire)."""


class _Action:
    @property
    def tensor(self) -> ArraySpec:
        """One action, which is a number like its bounds."""
        low, _ = bounds_of(self)  # type: ignore[arg-type]  # every subclass is an ActionSpec
        return ArraySpec(low.shape, "int32" if low.dtype.kind == "i" else "float32")


@dataclasses.dataclass(frozen=True)
class DiscreteSpec(_Action):
    """Actions 0 .. n-1, an int32 scalar."""

    n: int

    def __post_init__(self):
        if self.n < 1:
            raise ValueError(f"a discrete action space needs at least one action, got n={self.n}")

    def __str__(self) -> str:
        return f"Discrete({self.n})"


@dataclasses.dataclass(frozen=True)
class MultiDiscreteSpec(_Action):
    """K simultaneous choices, of which choice k is in 0 .. n[k]-1: int32 [K]."""

    n: tuple[int, ...]

    def __post_init__(self):
        if not self.n or min(self.n) < 1:
            raise ValueError(f"every choice in a multi-discrete action needs at least one value, got {self.n}")

    def __str__(self) -> str:
        return f"MultiDiscrete({', '.join(map(str, self.n))})"


@dataclasses.dataclass(frozen=True)
class ContinuousSpec(_Action):
    """K numbers, of which number k is in [low[k], high[k]]: float32 [K]. Bounds and differences fit in float32."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self):
        if not self.low or len(self.low) != len(self.high):
            got = f"{self.low} and {self.high}"
            raise ValueError(f"actions need as many lower as upper bounds, at least one, got {got}")
        for low, high in zip(self.low, self.high, strict=True):
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"continuous actions need finite bounds with low < high, got {low} and {high}")
            for bound in (low, high):  # the wire rounds to float32, after which specs would no longer be equal
                if abs(bound) > _LARGEST or float(np.float32(bound)) != bound:
                    raise ValueError(f"bounds of continuous actions must be float32 numbers, got {bound}")
            if not _SMALLEST <= high - low <= _LARGEST:  # scaling actions to these bounds would give NaN
                raise ValueError(f"bounds of continuous actions are too far apart or too close, got {low} and {high}")

    def __str__(self) -> str:
        ranges = (f"{low:g}..{high:g}" for low, high in zip(self.low, self.high, strict=True))
        return f"Continuous({', '.join(ranges)})"


@dataclasses.dataclass(frozen=True)
class MixedSpec(_Action):
    """K choices as in `MultiDiscreteSpec`, and then M numbers as in `ContinuousSpec`: float32 [K + M]."""

    n: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self):
        str(self)  # the parts check themselves
        if max(self.n) > _LARGEST_WHOLE:
            raise ValueError(f"choices beside numbers have at most {_LARGEST_WHOLE} values, got {self.n}")

    @property
    def choices(self) -> MultiDiscreteSpec:
        """The first K components."""
        return MultiDiscreteSpec(self.n)

    @property
    def numbers(self) -> ContinuousSpec:
        """The last M components."""
        return ContinuousSpec(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.choices} + {self.numbers}"


ActionSpec = DiscreteSpec | MultiDiscreteSpec | ContinuousSpec | MixedSpec


def choices_of(action: ActionSpec) -> tuple[int, ...]:
    """Number of values of each choice that an action makes; empty for continuous actions."""
    return () if isinstance(action, ContinuousSpec) else tuple(np.ravel(action.n).tolist())


def bounds_of(action: ActionSpec) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of each component of an action."""
    if isinstance(action, ContinuousSpec):
        return np.array(action.low), np.array(action.high)
    low, high = np.zeros_like(action.n), np.array(action.n) - 1
    return (low, high) if not isinstance(action, MixedSpec) else (np.r_[low, action.low], np.r_[high, action.high])


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """Observations and actions of one environment.

    With an action mask, the observation has a tensor `LEGAL_ACTIONS`, uint8 [ceil(N / 8)]: a bit for each value of each
    choice, N in total, lowest bit first; 1 if the value is legal. Networks don't take it as an input.
    """

    observation: ObservationSpec
    action: ActionSpec

    def __post_init__(self):
        mask = ((-(-sum(choices_of(self.action)) // 8),), "uint8")
        for name, spec in self.observation_tensors():
            if name == LEGAL_ACTIONS and ((spec.shape, spec.dtype) != mask or not self.network_inputs()):
                raise ValueError(f"an action mask has a bit per value of discrete actions, beside inputs, got {self}")

    @property
    def has_mask(self) -> bool:
        """Whether observations have an action mask."""
        return LEGAL_ACTIONS in dict(self.observation_tensors())

    def network_inputs(self) -> list[tuple[str, ArraySpec]]:
        """The `observation_tensors` without the action mask."""
        return [(name, spec) for name, spec in self.observation_tensors() if name != LEGAL_ACTIONS]

    def __str__(self) -> str:
        parts = ", ".join(f"{name or 'observation'} {spec}" for name, spec in self.observation_tensors())
        return f"{parts}; action {self.action}"

    def observation_tensors(self) -> list[tuple[str, ArraySpec]]:
        """The name and spec of each observation tensor in wire order; an only tensor has an empty name."""
        if isinstance(self.observation, ArraySpec):
            return [("", self.observation)]
        return sorted(self.observation.items())


class CannotAct(UsageError):
    """An agent or network does not support an environment's spec; the message names both."""


@dataclasses.dataclass(frozen=True)
class EnvDescription:
    """Instructions for building environments: the name of a registered suite and its options."""

    suite: str
    options: Mapping[str, Option] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ActorSettings:
    """The learner's instructions for its actors; an actor's flags may override the sizes."""

    env: EnvDescription
    num_groups: int
    """Groups of environments: one steps while another waits for its actions."""
    envs_per_group: int
    env_spec: EnvSpec | None = None
    """Spaces of each environment, for clients that don't build the described ones; None: not said."""
    eval_env: EnvDescription | None = None
    """The environments of groups with ids from `first_eval_id` on, which evaluate, if they differ; spaces are equal."""
    first_eval_id: int = 0

    def __post_init__(self):
        for name in ("num_groups", "envs_per_group"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class GroupLease:
    """A group of environments and the ids that the learner has reserved for it."""

    env_ids: tuple[int, ...]
    seed: int
    """Seed of the group's first environment; each following one adds 1."""

    @functools.cached_property
    def env_id_array(self) -> np.ndarray:
        """The ids as an array, int32 [E]."""
        return np.array(self.env_ids, np.int32)


@dataclasses.dataclass(frozen=True)
class Lease:
    """The result of a successful join: a session and its groups, in the order of the requested group sizes."""

    session: str
    groups: tuple[GroupLease, ...]
