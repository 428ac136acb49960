"""Finds environment suites by name."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from seed_rl.envs.base import CannotBuild, EnvConfig
from seed_rl.foreign import json_object, without_gin
from seed_rl.settings import without_places
from seed_rl.specs import EnvDescription

ENTRY_POINTS = "seed_rl.envs"
"""The entry-point group in which packages, including this one, declare `EnvConfig` classes."""

_registered: dict[str, type[EnvConfig]] = {}


def may_import(module: str) -> bool:
    """Whether settings from others may name a module: importing one that is already loaded runs no code."""
    return module in sys.modules


def register(config: type[EnvConfig]) -> type[EnvConfig]:
    """Class decorator that registers a suite without an entry point in this process."""
    _registered[config.suite] = config
    return config


def names() -> list[str]:
    """The suites known in this process, in alphabetical order."""
    return sorted({*entry_points(group=ENTRY_POINTS).names, *_registered})


def suite(name: str) -> type[EnvConfig]:
    """The config class of a suite; raises CannotBuild, with the known ones, if there is no such suite."""
    if name in _registered:
        return _registered[name]
    found = entry_points(group=ENTRY_POINTS)
    if name not in found.names:
        raise CannotBuild(f"no environment suite named {name!r} is installed here (known: {', '.join(names())})")
    return register(found[name].load())


def from_description(description: EnvDescription) -> EnvConfig:
    """Build the config that a description describes, or raise CannotBuild if a name or value in it is invalid."""
    config = suite(description.suite)
    known = {field.name for field in dataclasses.fields(config)}
    if unknown := sorted(set(description.options) - known):
        raise CannotBuild(f"suite {description.suite!r} has no option {', '.join(unknown)} (known: {sorted(known)})")
    try:
        return config(**description.options)
    except (TypeError, ValueError) as error:
        raise CannotBuild(f"suite {description.suite!r}: {without_gin(error)}") from error


def changed(config: EnvConfig, changes: Mapping[str, Any]) -> EnvConfig:
    """Change settings, given as JSON values; objects are merged. Raises CannotBuild, also for a place."""
    if not changes:
        return config
    options = {**config.describe().options}
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(old := options.get(name), str) and old.startswith("{"):
            value = json.dumps(json_object(old) | value)
        options[name] = tuple(value) if isinstance(value, list) else value
    new = from_description(EnvDescription(config.suite, options))
    if places := [name for name in changes if getattr(without_places(new), name) != getattr(new, name)]:
        raise CannotBuild(f"{', '.join(places)} names a place, which can't be changed")  # by the settings of a stranger
    return new
