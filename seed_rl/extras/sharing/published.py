"""Published policies: folders with weights as safetensors beside the configuration, used like log directories."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from seed_rl.experiment.saved_config import SAVED
from seed_rl.extras.sharing import pretrained, safetensors
from seed_rl.foreign import json_object
from seed_rl.system.archives import BadArchive
from seed_rl.system.files import explained
from seed_rl.system.host_memory import free_host_memory
from seed_rl.system.object_store import files_in, is_url, local_file
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError

WEIGHTS = "model.safetensors"
"""Name of the file with the weights of a published policy."""
ABOUT = "policy.json"
"""Name of the file that describes the origin of a published or exported policy."""
_STATE = "counters.json"


def opened(place: str) -> contextlib.AbstractContextManager[str] | None:
    """Open a published policy, given its folder or the name of a pretrained one, as a `PolicySource` does.

    Raises:
      CannotReach: the place is in an object store that can't be read.
      CheckpointError, in the context: the weights can't be read.
    """
    if not is_url(place) and not os.path.exists(place) and (pretrained.ROOT / place / ABOUT).is_file():
        place = str(pretrained.ROOT / place)
    is_published = WEIGHTS in files_in(place) if is_url(place) else os.path.isfile(os.path.join(place, WEIGHTS))
    return _as_log_directory(place) if is_published else None


@contextlib.contextmanager
def _as_log_directory(folder: str) -> Iterator[str]:
    """Yield a temporary log directory with the weights as a checkpoint; errors name the folder in its place."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-policy-") as temporary:
        logdir = os.path.join(temporary, "run")
        os.makedirs(directory := os.path.join(logdir, "checkpoints"))
        try:
            with explained(CheckpointError, f"{folder} can't be read"):
                for name in (SAVED, ABOUT):
                    with contextlib.suppress(FileNotFoundError), local_file(os.path.join(folder, name)) as local:
                        shutil.copy(local, logdir)
                checkpoints.save(directory, 0, *read(os.path.join(folder, WEIGHTS)), keep=1)
            yield logdir
        except Exception as error:
            error.args = tuple(each.replace(logdir, folder) if isinstance(each, str) else each for each in error.args)
            raise


def read(path: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the weights of a published policy, which may be in an object store, and the state beside them.

    Raises:
      CheckpointError: the file can't be read.
      CannotReach: the object store can't be read.
    """
    with (
        explained(CheckpointError, f"{path} is damaged", BadArchive),
        explained(CheckpointError, f"{path} can't be read"),
        local_file(path) as local,
        open(local, "rb") as file,
    ):
        if (size := os.path.getsize(local)) > free_host_memory():
            raise CheckpointError(f"{path} has {size:,} bytes, more than there is free memory")
        arrays, metadata = safetensors.load(file.read())
    with explained(CheckpointError, f"{path} is not a policy: its {_STATE} can't be read", ValueError):
        return arrays, json_object(metadata.get(_STATE, "").encode())


def write(path: str, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
    """Write the weights of a policy, with a state that has its environment frames.

    Raises:
      OSError: the file can't be written; an older one of that name is untouched.
    """
    safetensors.save(path, arrays, {_STATE: json.dumps(dict(state))})
