"""Config files: gin files found, read and summarised; the configuration of a run saved and compared."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import logging
import os
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata, resources
from typing import Any

import gin

from seed_rl import __version__, agents
from seed_rl.envs import registry
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.files import complete_or_absent
from seed_rl.foreign import read_json_object, shortened
from seed_rl.object_store import local_file
from seed_rl.settings import Settings, did_you_mean

gin.add_config_file_search_path(str(resources.files("seed_rl.configs")))

SAVED = "config.json"
"""In a log directory: every setting by dotted name."""
_MAY_CHANGE = ("actors.", "inference.", "devices.", "logs.", "replay.placement", "replay.snapshot")
"""Settings that may differ when a run is resumed, and between its learner hosts: they affect speed and logs only."""


def load(gin_files: str | Sequence[str], gin_params: str | Sequence[str] = ()) -> Experiment:
    """Reads gin files and bindings into an experiment.

    Args:
      gin_files: paths, or names of shipped files with or without the ending (`atari/vtrace_pong`); one or several.
      gin_params: bindings such as `Optimizer.learning_rate = 1e-4`; they win over the files. A single word needs no
        quotes: `Atari.game = breakout`.

    Raises:
      ConfigError: a missing file, an unknown parameter, a value that can't be.
    """
    gin.clear_config()
    try:
        for name in [gin_files] if isinstance(gin_files, str) else gin_files:
            path = find_config(name)
            _parse(gin.parse_config_file, path, f"{path}: " if _is_binary(path) else "")
        for binding in [gin_params] if isinstance(gin_params, str) else gin_params:
            _parse(gin.parse_config, _quoted(binding), f"{binding!r}: ")
        _parse(lambda _: gin.finalize(), "", "")
        return Experiment()  # type: ignore[call-arg]  # gin gives the arguments
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ConfigError) else ConfigError(_sentence(error)) from error
    finally:
        gin.clear_config()  # settings made by hand later have the defaults


def _parse(parse: Callable[[str], Any], argument: str, prefix: str) -> None:
    logging.disable(logging.ERROR)  # gin logs every place in which it does not find an included file
    try:
        parse(argument)
    except Exception as error:  # gin raises all kinds, and modules that a file imports may raise any
        raise ConfigError(prefix + _sentence(error)) from error
    finally:
        logging.disable(logging.NOTSET)


def _quoted(binding: str) -> str:
    """A binding whose value, if it is a bare word, is a string."""
    match = re.fullmatch(r"\s*([\w./]+)\s*=\s*([A-Za-z][\w./:-]*)\s*", binding)
    return f"{match[1]} = {match[2]!r}" if match and match[2] not in ("True", "False", "None") else binding


def _is_binary(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            file.read().decode()
        except UnicodeDecodeError:
            return True
    return False


def find_config(name: str) -> str:
    """The path of a gin file, given as a path or as the name of a shipped one."""
    if os.path.isfile(name):
        return name
    shipped = resources.files("seed_rl.configs")
    for candidate in (name, f"{name}.gin"):
        path = shipped.joinpath(candidate)
        if path.is_file():
            return str(path)
    raise ConfigError(f"no gin file {name!r}: neither a path nor one of the shipped {', '.join(shipped_configs())}")


def shipped_configs() -> list[str]:
    """Names of the gin files that come with the package, without the ending."""
    root = str(resources.files("seed_rl.configs"))
    found = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]
    return sorted(name.removesuffix(".gin") for name in found if name.endswith(".gin"))


def summary(name: str) -> str:
    """A summary of a shipped gin file: the first sentence of its leading comment."""
    with open(find_config(name), encoding="utf-8") as file:
        lines = [
            line.removeprefix("#").strip() for line in itertools.takewhile(lambda line: line.startswith("#"), file)
        ]
    return re.split(r"(?<=\.)\s", " ".join(lines), maxsplit=1)[0]


def differences_from_saved(experiment: Experiment, logdir: str) -> list[str]:
    """The settings that keep an experiment from continuing the run in a log directory.

    The length of a run may change too, unless its learning rate depends on it.

    Returns:
      A phrase for each; none if there is no run.

    Raises:
      ConfigError: the directory's `config.json` can't be read.
    """
    try:
        saved = saved_settings(logdir)
    except FileNotFoundError:
        return []
    current = json.loads(json.dumps(experiment.to_json()))  # through JSON, so that both sides have its types
    free = _MAY_CHANGE if experiment.optimizer.schedule == "linear" else (*_MAY_CHANGE, "total_frames")
    why = {"total_frames": " (the linear schedule of the learning rate depends on it)"}
    return [
        f"{name} was {saved[name]!r} and is now {current[name]!r}{why.get(name, '')}"
        for name in current
        if name in saved and saved[name] != current[name] and not name.startswith(free)
    ]


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
        experiment: Experiment = _rebuilt(Experiment, "", saved)
        if saved:
            raise ConfigError(f"there is no setting {', '.join(map(shortened, [*saved][:3]))}")
        env = experiment.env
        own = {field.name: field.default for field in dataclasses.fields(env) if field.name in env.places_written}
        experiment = dataclasses.replace(experiment, env=dataclasses.replace(env, **own))
    except (ImportError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} can't be used: {_sentence(error)}") from error
    for module in modules_named(experiment):
        if not registry.may_import(module):
            raise ConfigError(
                f"{path} can't be used: it names the module {shortened(module)}, which --import_module={module} permits"
            )
    return experiment


def modules_named(experiment: Experiment) -> list[str]:
    """Modules outside of this library that an experiment's settings name, as text or as their classes."""
    layers = [value for value in vars(experiment.agent).values() if isinstance(value, str) and ":" in value]
    return [*experiment.env.modules, *(layer.partition(":")[0] for layer in layers)]


def modules_needed(experiment: Experiment) -> list[str]:
    """What `--import_module` names for `load_saved` in another process: also the modules of classes of one's own."""
    classes = {type(settings).__module__ for settings in _groups(experiment)}
    return sorted(name for name in {*classes, *modules_named(experiment)} if not name.startswith(("seed_rl.", "__")))


def _groups(settings: Any) -> Iterator[Any]:
    """Settings, and those inside."""
    yield settings
    for field in dataclasses.fields(settings):
        if dataclasses.is_dataclass(child := getattr(settings, field.name)):
            yield from _groups(child)


def _rebuilt(group: type[Settings], prefix: str, saved: dict[str, Any]) -> Any:
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


def _class_named(kind: Any, hint: Any, setting: str) -> type[Settings]:
    """The class of this name that a setting may be, of those that are installed or imported.

    Raises:
      ConfigError: there is none, or there are several.
    """
    for suite in metadata.entry_points(group=registry.ENTRY_POINTS):
        if suite.attr == kind:
            suite.load()
    for agent in pkgutil.iter_modules(agents.__path__, "seed_rl.agents."):
        if agent.ispkg:
            importlib.import_module(agent.name)
    bases = [base for base in typing.get_args(hint) or (hint,) if dataclasses.is_dataclass(base)]
    found = {own for base in bases for own in (base, *_subclasses(base)) if own.__name__ == kind}
    if len(found) != 1:
        number = "several classes" if found else "no class"
        raise ConfigError(
            f"{setting}.kind is {shortened(kind)}, and {number} of this name can be that here: --import_module takes "
            "the module of a class of your own"
        )
    return found.pop()


def common_settings(experiment: Experiment) -> dict[str, Any]:
    """The settings that all learner hosts of a run must share, and the version, as JSON values by dotted name."""
    settings = {name: value for name, value in experiment.to_json().items() if not name.startswith(_MAY_CHANGE)}
    return {"the version of seed_rl": __version__, **settings}


def save_config(experiment: Experiment, logdir: str) -> None:
    """Writes every setting into the log directory: `config.gin` for people and `train`, and `config.json` as data.

    Raises:
      OSError: one of them can't be written; it is as it was before.
    """
    os.makedirs(logdir, exist_ok=True)
    for name, text in (("config.gin", to_gin(experiment)), (SAVED, json.dumps(experiment.to_json(), indent=2) + "\n")):
        with complete_or_absent(os.path.join(logdir, name)) as file:
            file.write(text.encode())


def to_gin(experiment: Experiment) -> str:
    """A gin file that gives this experiment, independent of its origin: every setting is bound."""
    imports: set[str] = set()
    blocks: list[str] = []

    def describe(settings: Any) -> None:
        name = type(settings).__name__
        if type(settings).__module__ != Experiment.__module__:
            imports.add(f"import {type(settings).__module__}")
        lines, inside = [], []
        for field in dataclasses.fields(settings):
            value = getattr(settings, field.name)
            if dataclasses.is_dataclass(value):
                inside.append(value)
                lines.append(f"{name}.{field.name} = @{type(value).__name__}()")
            else:
                lines.append(f"{name}.{field.name} = {value!r}")
        blocks.append("\n".join(lines))
        for child in inside:
            describe(child)

    describe(experiment)
    return "\n\n".join(["\n".join(sorted(imports)), *blocks]) + "\n"


def _sentence(error: BaseException) -> str:
    """The informative first part of a gin or dataclass error, on one line."""
    if isinstance(error, UnicodeDecodeError):
        return "this is not a gin file, which is text in UTF-8"
    text = " ".join(str(error).split())
    place = re.search(r'In file "([^"]+)", line (\d+)', text)
    text = re.split(r"\s+In call to configurable|\s+In bindings string|\s+In file ", text)[0]
    if "No values supplied by Gin or caller" in text:
        return "Experiment.env and Experiment.agent must be set"
    text += _guess(text)
    return f"{text} ({place[1]}, line {place[2]})" if place else text


def _guess(text: str) -> str:
    """The group of settings or the setting that a gin error may be about, as a question; empty without an idea."""
    groups = {group.__name__: group for group in _subclasses(Settings)}
    match re.search(r"Configurable '(\w+)' doesn't have a parameter named '(\w+)'|matching '([\w.]+)'", text):
        case None:
            return ""
        case found if found[3]:
            name, candidates = found[3], list(groups)
        case found:
            name = found[2]
            candidates = [field.name for field in dataclasses.fields(groups[found[1]])] if found[1] in groups else []
    return did_you_mean(name, candidates)


def _subclasses(kind: type[Settings]) -> Iterator[type[Settings]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
