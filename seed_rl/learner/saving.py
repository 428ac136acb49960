"""Saves and restores a run: weights, optimizer state, progress and, if configured, its replay.

Besides the newest checkpoints a run keeps `best.npz`, written after the evaluation episodes with the highest mean
return, and `frames-<n>.npz`, written after each multiple of `Logs.keep_every_frames`.
"""

import contextlib
import logging
import math
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from seed_rl.errors import Failure
from seed_rl.experiment import Logs
from seed_rl.foreign import number
from seed_rl.learner.progress import Progress
from seed_rl.learner.sources import ReplaySource
from seed_rl.system.archives import BadArchive
from seed_rl.system.files import PARTIAL, Outage, complete_or_absent, explaining, reason
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError

_log = logging.getLogger(__name__)


class Saver:
    """The checkpoints of a run."""

    def __init__(self, logdir: str, logs: Logs, variables: Mapping[str, Any], progress: Progress):
        """The Keras `variables` have names that are the same in every process."""
        self._directory = os.path.join(logdir, "checkpoints")
        os.makedirs(self._directory, exist_ok=True)
        self._logs, self._variables, self._progress = logs, variables, progress
        self._best, self._kept, self._passed = -math.inf, 0, 0
        self._snapshot: ReplaySource | None = None
        self._no_checkpoints = Outage("checkpoints", "training continues, with retries", _log)
        self._no_snapshots = Outage("copies of the replay", "checkpoints are without them", _log)
        self.begin()

    def restore(self) -> str | None:
        """Restore variables and progress from the newest checkpoint, or raise CheckpointError; return its path."""
        for leftover in pathlib.Path(self._directory).glob(f"*{PARTIAL}"):
            leftover.unlink()
        if os.path.exists(best := os.path.join(self._directory, checkpoints.BEST)):
            try:
                self._best = number(checkpoints.load(best)[1], "evaluation")
            except (CheckpointError, ValueError) as error:
                _log.warning("%s will be replaced: %s", best, error)
        if (newest := checkpoints.newest(self._directory)) is None:
            return None
        path, arrays, state = newest
        checkpoints.assign(self._variables, arrays, path)
        with explaining(CheckpointError, f"{path} is of another version of seed_rl", Exception):
            self._progress.set_state(state)
        self._kept = self._passed = self._multiples()
        return path

    def attach(self, snapshot: ReplaySource | None) -> None:
        """Add a replay to later checkpoints, and restore it if the run continues from one, or raise CheckpointError."""
        self._snapshot = snapshot
        self._remove_other_snapshots()
        if snapshot is None or not self._progress.restored:
            return
        path = self._snapshot_path()
        try:
            with open(path, "rb") as file:
                snapshot.restore(file)
        except FileNotFoundError:
            _log.warning("there is no %s: the replay starts empty", path)
        except BadArchive as error:
            raise CheckpointError(f"{path} is not usable: {error}; without it the replay starts empty") from error

    def begin(self) -> None:
        """Start an interval, after which the next checkpoint is due."""
        self._due = time.monotonic() + self._logs.checkpoint_interval_s

    def save_if_due(self) -> None:
        """Write the checkpoints that are due: the newest, the best and one to keep for good; log a failed write."""
        if self._is_empty:
            return
        evaluation, multiples = self._progress.new_evaluation(), self._multiples()
        is_due, has_passed = time.monotonic() >= self._due, multiples > self._passed
        self._passed = multiples
        if is_due:
            with self._no_checkpoints.tolerating():
                self.save()
        if evaluation is not None and evaluation > self._best:
            with self._no_checkpoints.tolerating():
                self._write(checkpoints.BEST, evaluation=evaluation)
                self._best = evaluation
                _log.info("evaluation return %.6g, the best so far, is kept in %s", evaluation, checkpoints.BEST)
        if multiples > self._kept and (has_passed or is_due):
            with self._no_checkpoints.tolerating():
                self._write(f"frames-{multiples * self._logs.keep_every_frames:012d}.npz")
                self._kept = multiples
        if is_due:
            self.begin()

    def _multiples(self) -> int:
        """Return how many multiples of `Logs.keep_every_frames` the run has passed; 0 if no checkpoints are kept."""
        every = self._logs.keep_every_frames
        return self._progress.counters.env_frames // every if every else 0

    @contextlib.contextmanager
    def last_checkpoint(self) -> Iterator[None]:
        """Save on exit, unless training has failed: also if the caller leaves the training loop or presses Ctrl-C."""
        try:
            yield
        except (GeneratorExit, KeyboardInterrupt):
            self._save_last()
            raise
        self._save_last()

    @property
    def _is_empty(self) -> bool:
        """Whether there is nothing to save yet: no update, and no replay that is saved."""
        return not self._progress.counters.learner_updates and self._snapshot is None

    def _save_last(self) -> None:
        if self._is_empty:
            return
        try:
            self.save()
        except OSError as error:
            written = checkpoints.paths(self._directory)
            newest = f"{written[-1]} is the newest there is" if written else "there is none"
            raise Failure(f"the last checkpoint can't be written ({reason(error)}); {newest}") from error

    def save(self) -> None:
        """Write a checkpoint, or raise OSError and leave older ones untouched."""
        updates, kept = self._progress.counters.learner_updates, self._logs.checkpoints_kept
        state = self._progress.get_state()
        checkpoints.save(self._directory, updates, self._arrays(), state, kept, beside=self._save_snapshot)
        self._remove_other_snapshots()

    def _save_snapshot(self) -> None:
        if self._snapshot is not None:
            with self._no_snapshots.tolerating(), complete_or_absent(self._snapshot_path()) as file:
                self._snapshot.save(file)

    def _write(self, name: str, **state: float) -> None:
        """Write a checkpoint that later ones don't remove, with more `state`."""
        path = os.path.join(self._directory, name)
        checkpoints.write(path, self._arrays(), self._progress.get_state() | state)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(variable.numpy()) for name, variable in self._variables.items()}

    def _snapshot_path(self) -> str:
        return os.path.join(self._directory, f"replay-{self._progress.counters.learner_updates:012d}.npz")

    def _remove_other_snapshots(self) -> None:
        """Remove the replays of older checkpoints, and of those that were never completed."""
        for path in pathlib.Path(self._directory).glob("replay-*.npz"):
            if path.name != os.path.basename(self._snapshot_path()):
                path.unlink()
