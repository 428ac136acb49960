"""Published policies: folders with weights as safetensors beside the configuration, used like log directories.

Pretrained policies are those in folders of the repository, found by name.
"""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors import safe_open

from seed_rl.experiment import ConfigError
from seed_rl.experiment.saved_config import SAVED
from seed_rl.foreign import json_object, read_json_object, read_small
from seed_rl.settings import did_you_mean
from seed_rl.system.files import explaining
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError

ROOT = pathlib.Path(__file__).resolve().parents[3] / "docs" / "pretrained"  # which only a clone has
WEIGHTS = "model.safetensors"  # name of the file with the weights of a published policy
ABOUT = "policy.json"  # name of the file that describes the origin of a published or exported policy
STATE = "counters.json"  # name in the metadata of the weights of the JSON state that has their environment frames


def names() -> list[str]:
    """Return the names of all pretrained policies, or raise a ConfigError if this installation has none."""
    if not ROOT.is_dir():
        raise ConfigError("they are in docs/pretrained of the repository, not in the package: use a clone")
    return sorted(path.parent.name for path in ROOT.glob("*/policy.json"))


def about(name: str) -> dict[str, Any]:
    """Read a pretrained policy's `policy.json`, and the size of its weights as `bytes`."""
    size = (ROOT / name / WEIGHTS).stat().st_size
    return {**read_json_object(str(ROOT / name / ABOUT)), "bytes": size}


def opened(place: str, checkpoint: str | None) -> contextlib.AbstractContextManager[str] | None:
    """Open a published policy, given its folder or the name of a pretrained one, as a `PolicySource` does."""
    if not os.path.exists(place) and ROOT.is_dir():
        if place in (known := names()):
            place = str(ROOT / place)
        elif "/" not in place and (meant := did_you_mean(place, known)):
            raise ConfigError(f"{place} is neither a directory nor a pretrained policy.{meant}")
    return _as_log_directory(place) if os.path.isfile(os.path.join(place, WEIGHTS)) else None


@contextlib.contextmanager
def _as_log_directory(folder: str) -> Iterator[str]:
    """Yield a temporary log directory with the weights as a checkpoint."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-policy-") as logdir:
        os.mkdir(directory := os.path.join(logdir, "checkpoints"))
        with explaining(CheckpointError, f"{folder} can't be read"):
            for name in (SAVED, ABOUT):
                unreadable = explaining(CheckpointError, f"{name} in {folder} can't be read", OSError, ValueError)
                with unreadable, contextlib.suppress(FileNotFoundError):
                    pathlib.Path(logdir, name).write_bytes(read_small(os.path.join(folder, name)))
            checkpoints.save(directory, 0, *read(os.path.join(folder, WEIGHTS)), keep=1)
        yield logdir


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the weights of a published policy, and the state beside them, or raise a CheckpointError."""
    with (
        checkpoints.opening(path),
        explaining(CheckpointError, f"{path} is not a usable safetensors file", Exception),
        safe_open(path, "numpy") as file,
    ):
        arrays, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    with explaining(CheckpointError, f"{path} is not a policy: its {STATE} can't be read", ValueError):
        return arrays, json_object(metadata.get(STATE, "").encode())
