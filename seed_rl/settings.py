"""Checks for the frozen dataclasses that hold settings: each fails with a sentence that names the setting."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of every group of settings: frozen, and of the declared types from construction on."""

    def __post_init__(self):
        check_types(self)


def check_types(settings: Any) -> None:
    """Every field of a simple type (bool, int, float, str, tuple, None and unions of them) has a value of that type.

    An int passes for a float; a bool passes for neither.
    """
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        allowed = _simple_types(hints[field.name])
        value = getattr(settings, field.name)
        if allowed and not (type(value) in allowed or (type(value) is int and float in allowed)):
            names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
            raise ValueError(f"{_name(settings, field.name)} must be {names}, got {value!r}")


def check_at_least(settings: Any, minimum: float, *names: str) -> None:
    """These fields are not less than `minimum`."""
    for name in names:
        if not getattr(settings, name) >= minimum:
            raise ValueError(f"{_name(settings, name)} must be at least {minimum}, got {getattr(settings, name)!r}")


def check_range(settings: Any, low: float, high: float, *names: str) -> None:
    """These fields lie in [low, high]."""
    for name in names:
        if not low <= getattr(settings, name) <= high:
            raise ValueError(f"{_name(settings, name)} must be in [{low}, {high}], got {getattr(settings, name)!r}")


def check_one_of(settings: Any, choices: Sequence[str], name: str) -> None:
    """This field is one of `choices`."""
    if getattr(settings, name) not in choices:
        raise ValueError(
            f"{_name(settings, name)} must be one of {', '.join(choices)}, got {getattr(settings, name)!r}"
        )


def _name(settings: Any, field: str) -> str:
    return f"{type(settings).__name__}.{field}"


def _simple_types(hint: Any) -> list[type]:
    """The types that a hint allows; empty if the hint is not simple."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    simple = (bool, int, float, str, tuple, type(None))
    kinds = [typing.get_origin(part) or part for part in parts]
    return kinds if all(kind in simple for kind in kinds) else []
