"""Pretrained policies: folders in the repository that are used like log directories, found by name."""

import os
import pathlib
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.foreign import read_json_object
from seed_rl.settings import did_you_mean
from seed_rl.system.files import StrPath

ROOT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pretrained"
"""Parent of the folders, which only a clone has."""


def names() -> list[str]:
    """Return the names of all pretrained policies, or raise a ConfigError if this installation has none."""
    if not ROOT.is_dir():
        raise ConfigError("they are in docs/pretrained of the repository, not in the package: use a clone")
    return sorted(path.parent.name for path in ROOT.glob("*/policy.json"))


def folder(name: str) -> str:
    """Return the folder of a pretrained policy.

    Raises:
      ConfigError: there is none of this name; lists those that there are.
    """
    if name not in (known := names()):
        raise ConfigError(f"no pretrained policy {name!r}; known are {', '.join(known)}.{did_you_mean(name, known)}")
    return str(ROOT / name)


def located(place: StrPath) -> str:
    """Return the folder of a pretrained policy for its name, and any other place unchanged."""
    place = os.fspath(place)
    return str(ROOT / place) if not os.path.exists(place) and (ROOT / place / "policy.json").is_file() else place


def about(name: str) -> dict[str, Any]:
    """Read a pretrained policy's `policy.json`, and the size of its weights as `bytes`."""
    return {
        **read_json_object(f"{folder(name)}/policy.json"),
        "bytes": (ROOT / name / "model.safetensors").stat().st_size,
    }
