"""Policies in the repository: folders of weights, configuration, score and film, found by name."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.experiment.saved_config import SAVED
from seed_rl.foreign import read_json_object
from seed_rl.settings import did_you_mean
from seed_rl.system.files import explained

ROOT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pretrained"
"""Folder of all pretrained policies. Only a clone has it."""


def names() -> list[str]:
    """Return the names of all pretrained policies.

    Raises:
      ConfigError: this installation has none.
    """
    if not ROOT.is_dir():
        raise ConfigError("they are in docs/pretrained of the repository, not in the package: use a clone")
    return sorted(path.parent.name for path in ROOT.glob(f"*/{SAVED}"))


def folder(name: str) -> str:
    """Return the folder of a pretrained policy, which can be used like the log directory of a run.

    Raises:
      ConfigError: there is none of this name; lists those that there are.
    """
    known = names()
    if name not in known:
        raise ConfigError(f"no pretrained policy {name!r}; known are {', '.join(known)}.{did_you_mean(name, known)}")
    return str(ROOT / name)


def about(name: str) -> dict[str, Any]:
    """Read what `policy.json` says of a pretrained policy, and the size of its weights as `bytes`.

    Raises:
      ConfigError: there is none of this name, or it is damaged.
    """
    place = folder(name)
    with explained(ConfigError, f"{place} can't be used", ValueError):
        return {**read_json_object(f"{place}/policy.json"), "bytes": os.path.getsize(f"{place}/model.safetensors")}


def located(place: str) -> str:
    """Return the folder of a pretrained policy for its name, and any other place unchanged."""
    is_name = place and not os.path.exists(place) and (ROOT / place / SAVED).is_file()
    return str(ROOT / place) if is_name else place
