"""Bundles: one file with all that others need to check a recorded run."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import random
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata

import numpy as np

from seed_rl.experiment.config_files import differences, save_config
from seed_rl.experiment.saved_config import SAVED, load_saved, rebuilt
from seed_rl.foreign import enumerated, open_file, read_json_object, shortened
from seed_rl.journal import file, segments
from seed_rl.journal.file import JournalError
from seed_rl.journal.segments import Differs, Segment
from seed_rl.runs.replay import Progress, replay, updates_behind
from seed_rl.settings import without_places
from seed_rl.system.files import complete_or_absent, explained
from seed_rl.weights import checkpoints

MANIFEST = "manifest.json"
"""Name of the file in a bundle with the SHA-256 of all others."""
POLICY = "policy.npz"
"""Name of the file in a bundle with the final weights of the agent."""
_CONFIG = (SAVED, "config.gin")
_COPIED = (file.NAME, *_CONFIG, "metrics.jsonl")
_PART = re.compile(r"frames-\d{12}\.npz")  # checkpoint at the beginning of a part
_MOST_BYTES = 2**30  # of one file in a bundle
_PIECE_BYTES = 2**20


def write_bundle(logdir: str, output: str) -> int:
    """Write the bundle of a recorded run whose learner has ended, and return its size in bytes.

    Raises:
      JournalError: there is no journal, or it doesn't reach the newest checkpoint.
      FileNotFoundError: `logdir` is not the log directory of a run.
      CheckpointError: there is no checkpoint.
      OSError: the file can't be written.
    """
    path, arrays, state = checkpoints.chosen(logdir, None)
    journal = _complete(logdir, path)
    with tempfile.TemporaryDirectory() as directory:
        policy = os.path.join(directory, POLICY)
        checkpoints.write(policy, checkpoints.weights_in(arrays), state)
        save_config(without_places(load_saved(logdir)), directory)
        copied = [os.path.join(directory if name in _CONFIG else logdir, name) for name in _COPIED]
        paths = [*copied, *_beginnings(os.path.join(logdir, "checkpoints"), journal), policy]
        contents = {os.path.basename(path): pathlib.Path(path).read_bytes() for path in paths}
    installed = {f"{each.name}=={each.version}" for each in metadata.distributions()}
    contents["requirements.txt"] = "".join(f"{line}\n" for line in sorted(installed)).encode()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    contents[MANIFEST] = json.dumps(hashes, indent=2).encode()
    with complete_or_absent(output) as whole, tarfile.open(fileobj=whole, mode="w") as archive:
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return os.path.getsize(output)


def verify(path: str, until: int | None = None, random_part: bool = False) -> Iterator[Progress]:
    """Check the hashes of a bundle, execute its run again, and compare all digests and the final policy.

    Args:
      path: bundle.
      until: number of updates after which to end; None: all, and then the final policy.
      random_part: whether to execute only one part of the run, drawn at random.

    Yields:
      Progress, with each row of metrics.

    Raises:
      JournalError: the bundle is damaged or incomplete, or can't be replayed here.
      Differs: the replay came out differently.
    """
    with _unpacked(path) as logdir, tempfile.TemporaryDirectory(prefix="seed_rl-verify-") as temporary:
        journal = _complete(logdir, os.path.join(logdir, POLICY))
        last, begin = journal[-1], ""
        saved = load_saved(logdir)
        for segment in journal:
            settings = segment.start["settings"]
            changed = differences(saved, settings)
            recorded = without_places(rebuilt(settings, f"{file.NAME} in {path}"))
            if changed or (segment is last and recorded != without_places(saved)):
                what = enumerated(changed) or "what may change in a run"
                raise JournalError(f"{SAVED} in {path} is not the configuration that was recorded: {what}")
        policy = checkpoints.load(os.path.join(logdir, POLICY))[0]
        if random_part:
            later = _beginnings(logdir, journal)
            if not later:
                raise JournalError(f"{path} can only be checked as a whole: it has no checkpoints between parts")
            number = random.SystemRandom().randrange(1 + len(later))
            begin = ["", *later][number]
            until = [*map(updates_behind, later), last.end[0]][number]
        end: Progress | None = None
        for end in replay(logdir, temporary, begin, until):
            yield end
        if end is not None and end.updates == last.end[0]:
            found = checkpoints.weights_in(checkpoints.chosen(end.logdir, None)[1])
            for name in {*policy, *found}:
                if name not in policy or name not in found or not np.array_equal(found[name], policy[name]):
                    raise Differs(f"{POLICY} in {path} is not the policy at the end of the run: {name} differs")


@contextlib.contextmanager
def opened(place: str) -> Iterator[str]:
    """Yield a log directory as `load_policy` takes it, for one or its URL, or a bundle.

    Raises:
      JournalError: it is a file but no bundle, or a damaged one.
    """
    if not os.path.isfile(place):
        yield place
        return
    with _unpacked(place) as logdir:
        os.mkdir(directory := os.path.join(logdir, "checkpoints"))
        policy = os.path.join(logdir, POLICY)
        os.rename(policy, os.path.join(directory, f"checkpoint-{updates_behind(policy):012d}.npz"))
        yield logdir


def _complete(logdir: str, policy: str) -> list[Segment]:
    """Load a journal that others can replay from its beginning to the policy in a checkpoint.

    Raises:
      JournalError: it is none.
      CheckpointError: the checkpoint is not usable.
    """
    journal, updates = segments.load(os.path.join(logdir, file.NAME)), updates_behind(policy)
    if updates != journal[-1].end[0]:
        raise JournalError(
            f"{logdir} has a checkpoint of update {updates}, but its journal ends at {journal[-1].end[0]}"
        )
    for init_from in (segment.start["settings"].get("init_from") for segment in journal):
        if init_from:
            raise JournalError(f"{logdir} began with the weights of {shortened(init_from)}, which others don't have")
    return journal


@contextlib.contextmanager
def _unpacked(path: str) -> Iterator[str]:
    """Yield a temporary directory with the files of a bundle, after checking their hashes; errors name the bundle."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-bundle-") as temporary:
        logdir = os.path.join(temporary, "run")
        try:
            _unpack(path, logdir)
            yield logdir
        except Exception as error:
            error.args = tuple(each.replace(logdir, path) if isinstance(each, str) else each for each in error.args)
            raise


def _unpack(path: str, logdir: str) -> None:
    """Write the files of a bundle into a new directory, which takes no more room than the bundle."""
    os.makedirs(logdir)
    names = {*_COPIED, POLICY, "requirements.txt"}
    hashes: dict[str, str] = {}
    with (
        explained(JournalError, f"{path} is not a bundle", OSError, tarfile.TarError, ValueError),
        open_file(path) as archive,
    ):
        left = os.path.getsize(path)
        while (header := archive.read(tarfile.BLOCKSIZE)).strip(b"\0"):
            entry = tarfile.TarInfo.frombuf(header, "ascii", "backslashreplace")
            known = entry.name in (*names, MANIFEST) or _PART.fullmatch(entry.name)
            left -= tarfile.BLOCKSIZE + entry.size
            odd = entry.type != tarfile.REGTYPE or entry.name in hashes or not 0 <= entry.size <= _MOST_BYTES
            if not known or odd or left < 0:
                raise JournalError(f"{path} has an unexpected entry {shortened(entry.name)}")
            with open(os.path.join(logdir, entry.name), "xb+") as file:
                for position in range(0, entry.size, _PIECE_BYTES):
                    file.write(archive.read(min(_PIECE_BYTES, entry.size - position)))
                file.seek(0)
                hashes[entry.name] = hashlib.file_digest(file, "sha256").hexdigest()
            archive.seek(-entry.size % tarfile.BLOCKSIZE, os.SEEK_CUR)
        if not hashes.pop(MANIFEST, ""):
            raise JournalError(f"{MANIFEST} in {path} is missing")
        manifest = read_json_object(os.path.join(logdir, MANIFEST))
    for name in sorted(names | set(hashes) | set(manifest)):
        if name not in hashes or manifest.get(name) != hashes[name]:
            raise JournalError(f"{name[:100]} in {path} is {'missing' if name not in hashes else 'changed'}")


def _beginnings(directory: str, journal: Sequence[Segment]) -> list[str]:
    """Return the checkpoints from which parts of a run can be replayed, in order.

    There are none if the run saves its replay memory, which is kept for the newest checkpoint only, or has a league.
    """
    settings = journal[0].start["settings"]
    if settings.get("replay.snapshot") or settings.get("league.kind"):
        return []
    begins = {segment.begin for segment in journal}
    paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if _PART.fullmatch(name)]
    return [path for path in paths if updates_behind(path) in begins]
