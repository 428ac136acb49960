"""Gymnasium's spaces as specs."""

import functools
import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.specs import ActionSpec, ArraySpec, ContinuousSpec, DiscreteSpec, MixedSpec, MultiDiscreteSpec

_MOST_VALUES = 1 << 16
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)  # allowed on the wire and in names of layers


class Mixed(spaces.Box):
    """Actions of choices and numbers: float32 [K + M], first the K choices as whole numbers from 0 on."""

    def __init__(self, choices: Sequence[int], numbers: spaces.Box):
        self.choices, self.numbers = tuple(choices), numbers
        low, high = np.zeros(len(choices)), np.array(choices) - 1
        super().__init__(
            np.r_[low, numbers.low].astype(np.float32), np.r_[high, numbers.high].astype(np.float32), dtype=np.float32
        )


class Leaf(NamedTuple):
    """A space that is no Dict or Tuple, in a tree of those."""

    name: str
    """The keys that lead to it, divided by slashes; a key that is not allowed in a name is replaced by its position."""
    space: gymnasium.Space[Any]
    path: tuple[Any, ...]
    """The keys themselves."""

    def of(self, tree: Any) -> Any:
        """The part of an observation that belongs to the space."""
        return functools.reduce(operator.getitem, self.path, tree)


def leaves(space: gymnasium.Space[Any], name: str = "", path: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    """The spaces at the ends of a tree of spaces."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield Leaf(name, space, path)
        return
    for index, (key, child) in enumerate(space.items() if isinstance(space, spaces.Dict) else enumerate(space)):
        own = key if all(map(_NAME.fullmatch, str(key).split("/"))) else index
        yield from leaves(child, f"{name}/{own}" if name else str(own), (*path, key))


def tensors_of(observation: Any) -> dict[str, Any]:
    """The tensors of an observation, or its parts of a space, by name: an only one is called `observation`."""
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}


def observation_spec(space: gymnasium.Space[Any]) -> ArraySpec | dict[str, ArraySpec]:
    """The spec of an observation space; raises ValueError if it can't be sent."""
    if isinstance(space, spaces.Box):
        return _array_spec("observations", space)
    if isinstance(space, spaces.Dict) and all(isinstance(part, spaces.Box) for part in space.values()):
        return {name: _array_spec(f"observation {name}", part) for name, part in space.items()}
    raise ValueError(f"observations must be a Box or a Dict of Boxes (FlatVectorEnv converts others), got {space}")


def check_size(subject: str, space: gymnasium.Space[Any], remedy: str = "") -> None:
    """Raise ValueError if a space of choices has more values than a network can have inputs or outputs for."""
    sizes = np.ravel(getattr(space, "nvec", getattr(space, "n", 0))).tolist()
    if isinstance(space, spaces.MultiBinary):
        sizes = [2 * math.prod(space.shape)]
    if sum(sizes) > _MOST_VALUES:
        raise ValueError(f"{subject} may have at most {_MOST_VALUES} values, got {str(space)[:100]}{remedy}")


def _array_spec(subject: str, space: gymnasium.Space[Any]) -> ArraySpec:
    assert space.shape is not None
    try:
        return ArraySpec(tuple(int(n) for n in space.shape), np.dtype(space.dtype).name)
    except ValueError as error:
        raise ValueError(f"{subject} can't come from {space}: {error}") from error


def action_spec(space: gymnasium.Space[Any]) -> ActionSpec:
    """The spec of an action space; raises ValueError if it can't be sent."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return DiscreteSpec(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1 and not np.any(space.start):
        return MultiDiscreteSpec(tuple(int(n) for n in space.nvec))
    if isinstance(space, Mixed):
        numbers = action_spec(space.numbers)
        return MixedSpec(space.choices, numbers.low, numbers.high)  # type: ignore[union-attr]
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype == np.float32:
        try:
            return ContinuousSpec(tuple(space.low.tolist()), tuple(space.high.tolist()))
        except ValueError as error:
            raise ValueError(f"actions can't come from {space}: {error}") from error
    raise ValueError(
        f"actions must be Discrete or MultiDiscrete [K] and start at 0, or a bounded float32 Box [K], got {space}"
    )
