"""Pretrained policies: published ones in folders of the repository, found by name."""

import pathlib
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.foreign import read_json_object

ROOT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "pretrained"
"""Parent of the folders, which only a clone has."""


def names() -> list[str]:
    """Return the names of all pretrained policies, or raise a ConfigError if this installation has none."""
    if not ROOT.is_dir():
        raise ConfigError("they are in docs/pretrained of the repository, not in the package: use a clone")
    return sorted(path.parent.name for path in ROOT.glob("*/policy.json"))


def about(name: str) -> dict[str, Any]:
    """Read a pretrained policy's `policy.json`, and the size of its weights as `bytes`."""
    size = (ROOT / name / "model.safetensors").stat().st_size
    return {**read_json_object(str(ROOT / name / "policy.json")), "bytes": size}
