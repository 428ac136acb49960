"""The configuration of a run: written into its log directory, loadable again, compared with what would continue it."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from seed_rl import __version__
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.files import complete_or_absent

_SAVED = "config.json"
_MAY_CHANGE = ("actors.", "inference.", "devices.", "logs.", "replay.placement", "replay.snapshot")
"""Settings that a resumed run may have otherwise than when it was begun, and a learner host otherwise than the other
hosts of its run: they change its speed and its logs."""


def differences_from_saved(experiment: Experiment, logdir: str) -> list[str]:
    """The settings in which an experiment differs from the run in a log directory so that it can't continue it.

    The length of a run may change too, unless its learning rate depends on it.

    Returns:
      A phrase for each; none if there is no run.

    Raises:
      ConfigError: the directory's `config.json` can't be read.
    """
    path = os.path.join(logdir, _SAVED)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            saved = json.load(file)
    except ValueError as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
    current = json.loads(json.dumps(experiment.to_json()))  # through JSON, so that both sides have its types
    free = _MAY_CHANGE if experiment.optimizer.schedule == "linear" else (*_MAY_CHANGE, "total_frames")
    return [
        f"{name} was {saved[name]!r} and is now {current[name]!r}"
        for name in current
        if name in saved and saved[name] != current[name] and not name.startswith(free)
    ]


def common_settings(experiment: Experiment) -> dict[str, Any]:
    """What learner hosts that train one model must have in common, as JSON values: settings by dotted name, version."""
    settings = {name: value for name, value in experiment.to_json().items() if not name.startswith(_MAY_CHANGE)}
    return {"the version of seed_rl": __version__, **settings}


def save_config(experiment: Experiment, logdir: str) -> None:
    """Writes every setting into the log directory: `config.gin`, from which it can be loaded, and `config.json`.

    Raises:
      OSError: one of them can't be written; it is as it was before.
    """
    os.makedirs(logdir, exist_ok=True)
    for name, text in (("config.gin", to_gin(experiment)), (_SAVED, json.dumps(experiment.to_json(), indent=2) + "\n")):
        with complete_or_absent(os.path.join(logdir, name)) as file:
            file.write(text.encode())


def to_gin(experiment: Experiment) -> str:
    """A gin file that gives this experiment, whatever it was made from: every setting is bound."""
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
