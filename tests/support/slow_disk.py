"""A writer that never finishes, for tests that kill it."""

from __future__ import annotations

import os
import threading
from multiprocessing.synchronize import Event
from unittest import mock

import numpy as np

from seed_rl.weights import checkpoints


def save_for_ever(directory: str, half_written: Event) -> None:
    """Saves checkpoint 1, then hangs in the middle of writing checkpoint 2 and sets `half_written`."""
    checkpoints.save(directory, 1, {"x": np.ones(1000)}, {"step": 1}, keep=3)

    def hang(descriptor: int) -> None:
        os.ftruncate(descriptor, 100)
        half_written.set()
        threading.Event().wait()

    with mock.patch.object(os, "fsync", hang):
        checkpoints.save(directory, 2, {"x": np.zeros(1000)}, {"step": 2}, keep=3)
