"""Copies of the replay beside the checkpoints that they belong to."""

from __future__ import annotations

import glob
import logging
import os

from seed_rl.buffers.snapshot import BadSnapshot
from seed_rl.files import Outage, complete_or_absent
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.learner.sources import Snapshot

_log = logging.getLogger(__name__)


class ReplayCopies:
    """At most one file: what a source held at the checkpoint of a learner update. One that is lost is filled anew."""

    def __init__(self, directory: str):
        """
        Args:
          directory: of the checkpoints.
        """
        self._directory = directory
        self._outage = Outage("copies of the replay", "checkpoints are without them", _log)

    def _path(self, update: int) -> str:
        return os.path.join(self._directory, f"replay-{update:012d}.npz")

    def save(self, snapshot: Snapshot, update: int) -> None:
        """Writes the copy; what can't be written is logged."""
        with self._outage.tolerated(), complete_or_absent(self._path(update)) as file:
            snapshot.save(file)

    def restore(self, snapshot: Snapshot, update: int) -> None:
        """Takes the copy over, if there is one.

        Raises:
          CheckpointError: it can't be used.
        """
        path = self._path(update)
        try:
            with open(path, "rb") as file:
                snapshot.restore(file)
        except FileNotFoundError:
            _log.warning("there is no %s: the replay is filled anew", path)
        except BadSnapshot as error:
            raise CheckpointError(
                f"{path} is of no use: {error}; if it is removed, the replay is filled anew"
            ) from error

    def remove_others(self, update: int) -> None:
        """All but that of this update: of older checkpoints, and of such that were never written."""
        for path in glob.glob(os.path.join(glob.escape(self._directory), "replay-*.npz")):
            if path != self._path(update):
                os.remove(path)
