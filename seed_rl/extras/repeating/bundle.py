"""Bundles: one file with all that others need to check a recorded run."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import tarfile
import tempfile
from collections.abc import Iterator
from importlib import metadata
from typing import IO

import numpy as np

from seed_rl.experiment.config_files import differences, save_config
from seed_rl.experiment.saved_config import SAVED, load_saved
from seed_rl.extras.repeating import file, segments
from seed_rl.extras.repeating.file import JournalError
from seed_rl.extras.repeating.replay import Progress, check_gaps, replay, updates_behind
from seed_rl.extras.repeating.segments import Differs
from seed_rl.foreign import enumeration, open_file, read_json_object, short_repr
from seed_rl.settings import without_places
from seed_rl.system.files import complete_or_absent, explaining
from seed_rl.weights import checkpoints, policy_sources

_MANIFEST = "manifest.json"  # SHA-256 of all other files
_POLICY = "policy.npz"  # final weights of the agent
_CONFIG = (SAVED, "config.gin")
_FILES = {file.NAME, *_CONFIG, "metrics.jsonl", _POLICY, "requirements.txt"}
_MOST_BYTES = 2**30  # of a bundle
_PIECE = 2**20  # bytes copied at a time


def write_bundle(logdir: str, output: str) -> int:
    """Write the bundle of a recorded run whose learner has ended, and return its size in bytes."""
    path, arrays, state = checkpoints.chosen(logdir, None)
    _complete(logdir, path)
    with tempfile.TemporaryDirectory() as directory:
        checkpoints.write(os.path.join(directory, _POLICY), checkpoints.weights_in(arrays), state)
        save_config(without_places(load_saved(logdir)), directory)
        places = {**dict.fromkeys((_POLICY, *_CONFIG), directory), file.NAME: logdir, "metrics.jsonl": logdir}
        contents = {name: pathlib.Path(place, name).read_bytes() for name, place in places.items()}
    installed = {f"{each.name}=={each.version}\n" for each in metadata.distributions()}
    contents["requirements.txt"] = "".join(sorted(installed)).encode()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    contents[_MANIFEST] = json.dumps(hashes, indent=2).encode()
    with complete_or_absent(output) as whole, tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return os.path.getsize(output)


def verify(path: str, until: int | None = None) -> Iterator[Progress]:
    """Check the hashes of a bundle, execute its run again, and compare all digests and the final policy.

    For the arguments, what is yielded and what is raised see `replay`; also raise a JournalError: it is no bundle.
    """
    with policy_sources.opening(path) as logdir, tempfile.TemporaryDirectory(prefix="seed_rl-verify-") as temporary:
        place, arrays, _ = checkpoints.chosen(logdir, None)
        end, saved = _complete(logdir, place), load_saved(logdir)
        for segment in segments.load(os.path.join(logdir, file.NAME)):
            if changed := differences(saved, segment.start["settings"]):
                what = enumeration(changed)
                raise JournalError(f"{SAVED} in {path} is not the configuration that was recorded: {what}")
        updates = 0
        for progress in replay(logdir, temporary, until=until):
            updates = progress.updates
            yield progress
        if updates == end:
            policy = checkpoints.weights_in(arrays)
            found = checkpoints.weights_in(checkpoints.chosen(temporary, None)[1])
            for name in {*policy, *found}:
                if name not in policy or name not in found or not np.array_equal(found[name], policy[name]):
                    raise Differs(f"the policy in {path} isn't what the run ends with: {name} differs")


def opened(place: str, checkpoint: str | None = None) -> contextlib.AbstractContextManager[str] | None:
    """Open a bundle as a log directory with its only checkpoint, as a `PolicySource` does; None for anything else."""
    return _as_log_directory(place) if os.path.isfile(place) and not place.endswith(".npz") else None


@contextlib.contextmanager
def _as_log_directory(path: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="seed_rl-bundle-") as logdir:
        _unpack(path, logdir)
        os.mkdir(directory := os.path.join(logdir, "checkpoints"))
        os.rename(os.path.join(logdir, _POLICY), os.path.join(directory, f"checkpoint-{0:012d}.npz"))
        yield logdir


def _complete(logdir: str, policy: str) -> int:
    """Return the last update of a journal, or raise unless others can replay it up to the policy in a checkpoint."""
    journal, updates = segments.load(os.path.join(logdir, file.NAME)), updates_behind(policy)
    if updates != (end := journal[-1].end[0]):
        raise JournalError(f"{logdir} has a checkpoint of update {updates}, but its journal ends at {end}")
    if begin := journal[0].begin:
        raise JournalError(f"{logdir} is recorded from update {begin} on, and others don't have the checkpoint of that")
    check_gaps(journal, os.path.join(logdir, file.NAME))
    for segment in journal:
        if init_from := segment.start["settings"].get("init_from"):
            raise JournalError(f"{logdir} began with the weights of {short_repr(init_from)}, which others don't have")
    return updates


def _copy(file: IO[bytes], size: int, path: str) -> str:
    """Copy the next bytes of a file to a new one, piece by piece, and return their hash."""
    whole = hashlib.sha256()
    with open(path, "xb") as copy:
        while size and (piece := file.read(min(size, _PIECE))):
            whole.update(piece)
            copy.write(piece)
            size -= len(piece)
    return whole.hexdigest()


def _unpack(path: str, logdir: str) -> None:
    """Write the files of a bundle into an empty directory, and check their hashes."""
    hashes: dict[str, str] = {}
    with explaining(JournalError, f"{path} is not a bundle", Exception), open_file(path) as file:
        if (size := os.path.getsize(path)) > _MOST_BYTES:
            raise JournalError(f"{path} has {size:,} bytes, expected at most {_MOST_BYTES:,}")
        while any(block := file.read(tarfile.BLOCKSIZE)):  # not by `tarfile.open`, which reads names of any length
            entry = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
            odd = entry.name in hashes or entry.type != tarfile.REGTYPE or not 0 <= entry.size <= size
            if odd or entry.name not in (*_FILES, _MANIFEST):
                raise JournalError(f"{path} has an unexpected entry {short_repr(entry.name)}")
            hashes[entry.name] = _copy(file, entry.size, os.path.join(logdir, entry.name))
            file.seek(-entry.size % tarfile.BLOCKSIZE, os.SEEK_CUR)
        if not hashes.pop(_MANIFEST, ""):
            raise JournalError(f"{_MANIFEST} in {path} is missing")
        manifest = read_json_object(os.path.join(logdir, _MANIFEST))
    for name in sorted(_FILES | set(manifest)):
        if name not in hashes or manifest.get(name) != hashes[name]:
            raise JournalError(f"{name[:100]} in {path} is {'missing' if name not in hashes else 'changed'}")
