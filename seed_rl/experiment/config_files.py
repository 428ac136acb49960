"""Config files: gin files found, read and summarised; the configuration of a run saved and compared."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import IO, Any

import gin

from seed_rl import __version__
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.experiment.saved_config import SAVED, groups, saved_settings
from seed_rl.foreign import described
from seed_rl.settings import Settings, did_you_mean, subclasses
from seed_rl.system.files import complete_or_absent

gin.add_config_file_search_path(str(resources.files("seed_rl.configs")))
_including: list[str] = []  # the gin files that are being read, each included by the one before


def _located(name: str) -> str:
    """The path of a file beside the gin file that includes it, or else of one in the working directory."""
    beside = os.path.join(os.path.dirname(_including[-1]), name) if _including else name
    return os.path.realpath(beside if os.path.isfile(beside) else name)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[str]]:
    path = _located(name)
    if path in _including:
        raise ValueError(f"{name} includes itself")
    with open(path, encoding="utf-8-sig") as file:
        _including.append(path)
        try:
            yield file
        finally:
            _including.pop()


gin.config._FILE_READERS[:] = [(_opened, lambda name: os.path.isfile(_located(name)))]

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
            _parse(gin.parse_config_file, find_config(name), "")
        for binding in [gin_params] if isinstance(gin_params, str) else gin_params:
            _parse(gin.parse_config, _quoted(binding), f"{binding!r}: ")
        _parse(lambda _: gin.finalize(), "", "")
        _refuse_unused_scopes(gin.config_str())
        return Experiment()  # type: ignore[call-arg]  # gin gives the arguments
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ConfigError) else ConfigError(_sentence(error)) from error
    finally:
        gin.clear_config()  # settings made by hand later have the defaults


def _parse(parse: Callable[[str], Any], argument: str, prefix: str) -> None:
    logging.disable(logging.ERROR)  # gin logs every place in which it does not find an included file
    try:
        parse(argument)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{argument}: this is not a gin file, which is text in UTF-8") from error
    except SystemExit as error:
        raise ConfigError(f"{argument}: a module that it imports ends the program: {described(error)}") from error
    except Exception as error:  # gin raises all kinds, and modules that a file imports may raise any
        raise ConfigError(prefix + _sentence(error)) from error
    finally:
        logging.disable(logging.NOTSET)


def _refuse_unused_scopes(bindings: str) -> None:
    for scope, setting in re.findall(r"^([\w./]+)/(\w+\.\w+) =", bindings, re.MULTILINE):
        if f"@{scope}/" not in bindings:
            raise ConfigError(f"{scope}/{setting} has no effect: no reference has the scope, as @{scope}/... would")


def _quoted(binding: str) -> str:
    """A binding whose value, if it is a bare word, a number such as 300k, or an object of JSON, is a string."""
    match = re.fullmatch(r"\s*([\w./]+)\s*=\s*([A-Za-z][\w./:-]*|[\d_.]+[kMG]|\{.*\})\s*", binding)
    return f"{match[1]} = {match[2]!r}" if match and match[2] not in ("True", "False", "None") else binding


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
    """The `differences` from the run in a log directory; none if there is no run.

    Raises:
      ConfigError: the directory's `config.json` can't be read.
    """
    try:
        saved = saved_settings(logdir)
    except FileNotFoundError:
        return []
    return differences(experiment, saved)


def differences(experiment: Experiment, saved: Mapping[str, Any]) -> list[str]:
    """The settings that keep an experiment from continuing a run, a phrase for each.

    The length of a run may change too, unless its learning rate depends on it.

    Args:
      experiment: that would continue it.
      saved: the run's `Experiment.to_json`.
    """
    current = json.loads(json.dumps(experiment.to_json()))  # through JSON, so that both sides have its types
    free = _MAY_CHANGE if experiment.optimizer.schedule == "linear" else (*_MAY_CHANGE, "total_frames")
    why = {"total_frames": " (the linear schedule of the learning rate depends on it)"}
    return [
        f"{name} was {saved[name]!r} and is now {current[name]!r}{why.get(name, '')}"
        for name in current
        if name in saved and saved[name] != current[name] and not name.startswith(free)
    ]


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
    every = list(groups(experiment))
    imports = {f"import {type(group).__module__}" for group in every if type(group).__module__ != Experiment.__module__}
    return "\n\n".join(["\n".join(sorted(imports)), *map(_bindings, every)]) + "\n"


def _bindings(group: Any) -> str:
    name = type(group).__name__
    values = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    texts = {key: f"@{type(v).__name__}()" if dataclasses.is_dataclass(v) else repr(v) for key, v in values.items()}
    return "\n".join(f"{name}.{key} = {text}" for key, text in texts.items())


def _sentence(error: BaseException) -> str:
    """The informative first part of a gin or dataclass error, on one line."""
    text = " ".join(str(error).split())
    place = re.search(r'In file "([^"]+)", line (\d+)', text)
    text = re.split(r"\s+In call to configurable|\s+In bindings string|\s+In file | in config string", text)[0]
    text = re.sub(r"^No bindings specified for '(.+)/gin.macro'", r"the macro %\1 has no value", text)
    if "No values supplied by Gin or caller" in text:
        return "the gin files must set Experiment.env and Experiment.agent"
    text += _guess(text)
    return f"{text} ({place[1]}, line {place[2]})" if place else text


def _guess(text: str) -> str:
    """The group of settings or the setting that a gin error may be about, as a question; empty without an idea."""
    groups = {group.__name__: group for group in subclasses(Settings)}
    match re.search(r"Configurable '(\w+)' doesn't have a parameter named '(\w+)'|matching '([\w.]+)'", text):
        case None:
            return ""
        case found if found[3]:
            name, candidates = found[3], list(groups)
        case found:
            name = found[2]
            candidates = [field.name for field in dataclasses.fields(groups[found[1]])] if found[1] in groups else []
    return did_you_mean(name, candidates)
