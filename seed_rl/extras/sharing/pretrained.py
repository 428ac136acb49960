"""Pretrained policies: published ones in folders of the repository, found by name."""

import pathlib
from typing import Any

from seed_rl.cli.command import PolicyOption
from seed_rl.experiment import ConfigError
from seed_rl.foreign import read_json_object
from seed_rl.settings import did_you_mean

ROOT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "pretrained"
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


def about(name: str) -> dict[str, Any]:
    """Read a pretrained policy's `policy.json`, and the size of its weights as `bytes`."""
    return {
        **read_json_object(f"{folder(name)}/policy.json"),
        "bytes": (ROOT / name / "model.safetensors").stat().st_size,
    }


OPTION = PolicyOption("pretrained", "Name of a pretrained policy, instead of a run; see `seed_rl pretrained`.", folder)
