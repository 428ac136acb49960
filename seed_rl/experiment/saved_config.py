"""The configuration of a run, read from its log directory, whoever made it: data, of which nothing is executed."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
import re
import typing
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from seed_rl import agents
from seed_rl.envs import registry
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.foreign import read_json_object, shortened
from seed_rl.settings import subclasses
from seed_rl.system.object_store import local_file

SAVED = "config.json"
"""File in a log directory with every setting by dotted name."""


def saved_settings(logdir: str) -> dict[str, Any]:
    """Every setting of a run by dotted name, as JSON values.

    Raises:
      FileNotFoundError: this is not the log directory of a run.
      ConfigError: its `config.json` can't be read.
      CannotReach: it is in an object store that can't be.
    """
    path = os.path.join(logdir, SAVED)
    try:
        with local_file(path) as local:
            return read_json_object(local)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def load_saved(logdir: str) -> Experiment:
    """The experiment of a run, whoever made its log directory: nothing in there is executed.

    Its settings are those of this library, of installed suites, and of modules that are imported already.

    Raises:
      FileNotFoundError, ConfigError, CannotReach: see `saved_settings`; ConfigError also if the settings can't be used.
    """
    saved, path = saved_settings(logdir), os.path.join(logdir, SAVED)
    try:
        if not {"env.kind", "agent.kind"} <= saved.keys():
            raise ConfigError("env.kind and agent.kind are missing")
        experiment: Experiment = _rebuilt(Experiment, "", saved)
        if saved:
            raise ConfigError(f"there is no setting {', '.join(map(shortened, [*saved][:3]))}")
        env = experiment.env
        own = {field.name: field.default for field in dataclasses.fields(env) if field.name in env.places_written}
        experiment = dataclasses.replace(experiment, env=dataclasses.replace(env, **own))
    except (ImportError, TypeError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split()).partition(" In call to configurable")[0]  # gin adds that
        raise ConfigError(f"{path} can't be used: {text}") from error
    for module in modules_named(experiment):
        if not registry.may_import(module):
            raise ConfigError(
                f"{path} can't be used: it names the module {shortened(module)}, which --import_module={module} permits"
            )
    return experiment


def modules_named(experiment: Experiment) -> list[str]:
    """Modules, and directories of native code, that an experiment's settings name."""
    texts = map(str, vars(experiment.agent).values())
    layers = [text.partition(":")[0] for text in texts if re.fullmatch(r"[\w.]+:\w+", text)]
    return [*experiment.env.modules, *layers]


def modules_needed(experiment: Experiment) -> list[str]:
    """What `--import_module` names for `load_saved` in another process: also the modules of classes of one's own."""
    classes = {type(settings).__module__ for settings in groups(experiment)}
    return sorted(name for name in {*classes, *modules_named(experiment)} if not name.startswith(("seed_rl.", "__")))


def groups(settings: Any) -> Iterator[Any]:
    """A group of settings, and those inside of it."""
    yield settings
    for field in dataclasses.fields(settings):
        if dataclasses.is_dataclass(child := getattr(settings, field.name)):
            yield from groups(child)


def _rebuilt(group: type[Any], prefix: str, saved: dict[str, Any]) -> Any:
    """A group of settings, taken out of saved ones; those that are missing have their defaults."""
    hints, given = typing.get_type_hints(group), {}
    for field in dataclasses.fields(group):
        name = f"{prefix}{field.name}"
        if f"{name}.kind" in saved:
            kind = _class_named(saved.pop(f"{name}.kind"), hints[field.name], name)
            given[field.name] = _rebuilt(kind, f"{name}.", saved)
        elif name in saved:
            given[field.name] = _as_tuples(saved.pop(name))
    return group(**given)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _class_named(kind: Any, hint: Any, setting: str) -> type[Any]:
    """The class of this name that a setting may be, of those that are installed or imported.

    Raises:
      ConfigError: there is none, or there are several.
    """
    for suite in metadata.entry_points(group=registry.ENTRY_POINTS) if setting == "env" else ():
        if suite.attr == kind:
            suite.load()
    for agent in pkgutil.iter_modules(agents.__path__, "seed_rl.agents."):
        if agent.ispkg and setting == "agent":
            importlib.import_module(agent.name)
    bases = [base for base in typing.get_args(hint) or (hint,) if isinstance(base, type)]
    known = [own for base in bases for own in (base, *subclasses(base)) if dataclasses.is_dataclass(own)]
    found = {own.__module__: own for own in known if own.__name__ == kind}  # a notebook's cell may run again
    if len(found) != 1:
        number = "several classes" if found else "no class"
        raise ConfigError(
            f"{setting}.kind is {shortened(kind)}, and {number} of this name can be that here: --import_module takes "
            "the module of a class of your own"
        )
    return next(iter(found.values()))
