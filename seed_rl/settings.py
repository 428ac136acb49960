"""Frozen dataclasses of settings: each field declares type and bounds, and a wrong value raises a one-sentence error.

```python
@dataclasses.dataclass(frozen=True)
class Sound(Settings):
    volume: Annotated[float, Within(0, 1)] = 0.5
    speakers: Count = 2
    codec: Annotated[str, OneOf("opus", "flac")] = "opus"
```
"""

import contextlib
import dataclasses
import decimal
import difflib
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar


class Within(NamedTuple):
    """Inclusive bounds of a number."""

    low: float
    high: float = math.inf

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError unless the value is within the bounds."""
        if not self.low <= value <= self.high:
            allowed = f"at least {self.low}" if self.high == math.inf else f"in [{self.low}, {self.high}]"
            raise ValueError(f"{name} must be {allowed}, got {value!r}")


class OneOf:
    """The allowed values of a setting."""

    def __init__(self, *choices: str):
        self._choices = choices

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError unless the value is allowed."""
        if value not in self._choices:
            raise ValueError(f"{name} must be one of {', '.join(self._choices)}, got {value!r}")


class Place(NamedTuple):
    """Marks a setting that names a private place, such as a directory: it isn't published."""

    is_written: bool = False
    """Whether something is written there: the settings of others don't say where."""

    def check(self, name: str, value: Any) -> None:
        """Raise nothing."""


Count: TypeAlias = Annotated[int, Within(1)]
NonNegative: TypeAlias = Annotated[float, Within(0)]
UnitInterval: TypeAlias = Annotated[float, Within(0, 1)]
SettingsT = TypeVar("SettingsT", bound="Settings")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """ " Did you mean X?" with the candidate most similar to a mistyped name; empty if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    closest = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[closest[0]]!r}?" if closest else ""


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """All direct and indirect subclasses of a class."""
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of all settings: frozen, with types and bounds validated on construction.

    Types are checked if they are bool, int, float, str, None, tuples, other settings or unions of these. A float
    setting accepts an int, and an int setting a whole number written as 1e6 or '300k'; neither accepts a bool. The
    parts of a `tuple[Count, ...]` or `tuple[str, float]` are checked like settings. Bounds still apply if a subclass
    redeclares a field with a different default.
    """

    def __post_init__(self):
        names = {field.name for field in dataclasses.fields(self)}
        for declaring in type(self).__mro__:
            for field, hint in inspect.get_annotations(declaring, eval_str=True).items():
                if field in names:
                    value = _valid(f"{type(self).__name__}.{field}", getattr(self, field), hint)
                    object.__setattr__(self, field, value)


def without_places(settings: SettingsT, only_written: bool = False) -> SettingsT:
    """A group of settings, and those in it, with the defaults of all that are marked as a `Place`."""
    hints, given = typing.get_type_hints(type(settings), include_extras=True), {}
    for field in dataclasses.fields(settings):
        marks = [mark for mark in getattr(hints[field.name], "__metadata__", ()) if isinstance(mark, Place)]
        if any(mark.is_written or not only_written for mark in marks):
            given[field.name] = field.default
        elif isinstance(value := getattr(settings, field.name), Settings):
            given[field.name] = without_places(value, only_written)
    return dataclasses.replace(settings, **given)


def whole_number(text: str) -> int:
    """Parse a whole number, which may be written as 1e6, 300k, 10M, 10m or 1_000_000, or raise ValueError."""
    match = re.fullmatch(r"([\d_]{0,40}\.?\d{1,40}(?:e\+?\d{1,2})?)([kmg]?)", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None or (number := decimal.Decimal(match[1]) * _UNITS[match[2].lower()]) != int(number):
        raise ValueError("expected a whole number such as 300000, 300k, 10M or 1e6")
    return int(number)


def _valid(name: str, value: Any, hint: Any) -> Any:
    """Check a value's type and bounds; return it, or the whole number that it denotes if the type is int."""
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds, constraints, tuples = [], [], []
    for part in typing.get_args(hint) if is_union else (hint,):
        kind, *own = typing.get_args(part) if typing.get_origin(part) is Annotated else (part,)
        origin = typing.get_origin(kind)
        kinds.append(origin or kind)
        constraints += own
        tuples += [typing.get_args(kind)] if origin is tuple else []
    if int in kinds and (type(value) is float or (type(value) is str and value[-1:].lower() in "kmg")):
        with contextlib.suppress(ValueError):
            value = whole_number(str(value))
    groups = tuple(kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, Settings))
    is_checked = all(kind in (bool, int, float, str, tuple, type(None), *groups) for kind in kinds)
    fits = type(value) in kinds or (type(value) is int and float in kinds) or isinstance(value, groups)
    if is_checked and not fits:
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        called = f"; in gin, @{value.__name__}() has parentheses" if inspect.isclass(value) else ""
        raise ValueError(f"{name} must be {names}, got {value!r}{called}")
    if is_checked and isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    if type(value) is tuple and len(tuples) == 1:
        value = _valid_parts(name, value, tuples[0])
    for constraint in constraints if value is not None else ():
        constraint.check(name, value)
    return value


def _valid_parts(name: str, values: tuple[Any, ...], hints: tuple[Any, ...]) -> tuple[Any, ...]:
    """Check a tuple like `_valid`, given a type for each part, or a type and an ellipsis."""
    hints = hints[:1] * len(values) if hints[-1:] == (Ellipsis,) else hints
    if len(values) != len(hints):
        wanted = ", ".join(getattr(hint, "__origin__", hint).__name__ for hint in hints)
        raise ValueError(f"{name} must be ({wanted}), got {values!r}")
    parts = enumerate(zip(values, hints, strict=True))
    return tuple(_valid(f"{name}[{n}]", value, hint) for n, (value, hint) in parts)
