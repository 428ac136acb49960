"""Reads the configuration of a run from its log directory as pure data: nothing in the directory is executed."""

import dataclasses
import importlib
import itertools
import os
import pkgutil
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from seed_rl import agents
from seed_rl.envs import registry
from seed_rl.errors import UsageError
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.experiment.gone import without_gone
from seed_rl.experiment.own_gin import own_gin
from seed_rl.foreign import read_json_object, short_repr, without_gin
from seed_rl.settings import subclasses, without_places
from seed_rl.system.entry_points import declarations

SAVED = "config.json"
"""Name of the file in a log directory with every setting by dotted name."""
OPPONENTS = "seed_rl.opponents"
"""The entry-point group in which packages declare what `Experiment.league` may be."""
CHOSEN = ".chosen"
"""Suffix of the names in it of what a setting left open, such as the number format that `auto` stood for."""


def saved_settings(logdir: str) -> dict[str, Any]:
    """Read all settings of a run as JSON values by dotted name.

    Raises FileNotFoundError if it is not the log directory of a run, and ConfigError if `config.json` can't be read.
    """
    path = os.path.join(logdir, SAVED)
    try:
        return read_json_object(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def load_saved(logdir: str, own: bool = False) -> Experiment:
    """Rebuild the experiment of a run without executing anything from its log directory.

    Classes of settings come from this library, installed suites, and modules that are already imported. Places to
    write to are left out unless the run is one's `own`, to be trained. For errors see `saved_settings` and `rebuild`.
    """
    return rebuild(saved_settings(logdir), os.path.join(logdir, SAVED), own, trains=own)


def rebuild(settings: Mapping[str, Any], path: str, own: bool = False, trains: bool = False) -> Experiment:
    """Rebuild an experiment like `load_saved` from the settings in `config.json`; raise ConfigError naming `path`.

    An experiment that `trains` may not name unknown modules in the settings of its optimizer and replay, either.
    """
    saved = without_gone({name: v for name, v in settings.items() if not name.endswith(CHOSEN)}, path)
    try:
        if not {"env.kind", "agent.kind"} <= saved.keys():
            raise ConfigError("env.kind and agent.kind are missing")
        with own_gin():  # the program's bindings don't fill in what is missing
            experiment: Experiment = _rebuild_group(Experiment, "", saved)
            if saved:
                raise ConfigError(f"unknown setting {', '.join(map(short_repr, [*saved][:3]))}")
            experiment = experiment if own else without_places(experiment, only_written=True)
    except (ImportError, TypeError, ValueError, RecursionError, UsageError) as error:
        raise ConfigError(f"{path} can't be used: {without_gin(error)}") from error
    learner = [vars(group) for group in (experiment.optimizer, experiment.replay) if group and trains]
    for module in (*modules_named(experiment), *itertools.chain(*map(_modules_in, learner))):
        if not registry.may_import(module):
            named = f"it names the module {short_repr(module)}, which needs --import_module={module}"
            raise ConfigError(f"{path} can't be used: {named}")
    return experiment


def modules_named(experiment: Experiment) -> list[str]:
    """Return the modules named in an experiment's settings."""
    of_environments = dict.fromkeys(experiment.env.modules + experiment.eval_env.modules)
    return [*of_environments, *_modules_in(vars(experiment.agent))]


def _modules_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the modules of classes, `module:Class`, among the values of settings, except Keras' own."""
    found = re.findall(r"^([\w.]+):\w+$", "\n".join(map(str, settings.values())), re.MULTILINE)
    return [module for module in found if module.partition(".")[0] != "keras"]


def modules_needed(experiment: Experiment) -> list[str]:
    """Return the values of `--import_module` that `load_saved` needs in another process, including user modules."""
    classes = {type(settings).__module__ for settings in groups(experiment)}
    return sorted(name for name in {*classes, *modules_named(experiment)} if not name.startswith(("seed_rl.", "__")))


def groups(settings: Any) -> Iterator[Any]:
    """Yield a group of settings and all groups nested in it."""
    yield settings
    for field in dataclasses.fields(settings):
        if dataclasses.is_dataclass(child := getattr(settings, field.name)):
            yield from groups(child)


def _rebuild_group(group: type[Any], prefix: str, saved: dict[str, Any]) -> Any:
    """Build a group of settings, removing its entries from `saved`; missing settings get their defaults."""
    hints, given = typing.get_type_hints(group), {}
    for field in dataclasses.fields(group):
        name = f"{prefix}{field.name}"
        if f"{name}.kind" in saved:
            kind = _class_named(saved.pop(f"{name}.kind"), hints[field.name], name)
            given[field.name] = _rebuild_group(kind, f"{name}.", saved)
        elif name in saved:
            given[field.name] = _as_tuples(saved.pop(name))
    return group(**given)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _class_named(kind: Any, hint: Any, setting: str) -> type[Any]:
    """Find the class named `kind`, among those installed or imported, that is a valid value for a setting."""
    group = {"env": registry.ENTRY_POINTS, "league": OPPONENTS}.get(setting)
    for entry in declarations(group) if group else ():
        if entry.attr == kind:
            entry.load()
    for agent in pkgutil.iter_modules(agents.__path__, "seed_rl.agents."):
        if agent.ispkg and setting == "agent":
            importlib.import_module(agent.name)
    bases = [base for base in typing.get_args(hint) or (hint,) if isinstance(base, type)]
    known = [own for base in bases for own in (base, *subclasses(base)) if dataclasses.is_dataclass(own)]
    found = {own.__module__: own for own in known if own.__name__ == kind}  # re-run notebook cells redefine classes
    if len(found) != 1:
        number = "several classes" if found else "no class"
        remedy = "if it is your own, pass its module to --import_module"
        raise ConfigError(f"{setting}.kind is {short_repr(kind)}, but {number} of this name is known here: {remedy}")
    return next(iter(found.values()))
