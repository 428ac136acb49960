"""A strict stand-in for the `deepmind_lab` module, which has to be built and is rarely there.

It covers the part of the interface that seed_rl uses and answers as the real module does, errors included. Calls that
would end or hang a process there raise `WouldCrash`, which no handler of errors catches. The world is invented: noise
for frames, rewards for moving and firing.

    fake_deepmind_lab.install(directory)    # then put the directory on sys.path, or PYTHONPATH: spawned processes too
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
import zipfile
from typing import Any

import numpy as np

LEVELS = {
    "seekavoid_arena_01": 1_200,
    "lt_chasm": 18,
    "contributed/dmlab30/rooms_watermaze": 7_200,
    "contributed/dmlab30/explore_goal_locations_small": 5_400,
    "contributed/dmlab30/language_select_described_object": 3_600,
    "no_map": 60,
    "lua_error": 60,
    "own_actions": 60,
}
"""Frames of an episode."""
COMPILING = "contributed/dmlab30/explore_goal_locations_small"
"""The level whose maps are compiled; those of the others are prebuilt."""

compiled: list[str] = []
"""Keys of the maps compiled in this process."""
runfiles_path = ""


class WouldCrash(BaseException):
    """The real module would have ended or hung the process here."""


def install(directory: str | os.PathLike[str]) -> str:
    """Writes a module `deepmind_lab` into a directory that is this fake; returns the directory."""
    names = "Lab, set_runfiles_path"
    pathlib.Path(directory, "deepmind_lab.py").write_text(f"from {__name__} import {names}\n", encoding="utf-8")
    return str(directory)


def set_runfiles_path(path: str) -> None:
    """Says where the simulator's files are; read when a simulator starts."""
    global runfiles_path
    runfiles_path = path


class Lab:
    """A simulator of one level. Records the calls of `step` in `actions`, and counts `renderings`."""

    def __init__(
        self,
        level: str,
        observations: list[str],
        config: dict[str, str] = {},  # noqa: B006 (as it is)
        renderer: str = "software",
        level_cache: Any = None,
        temp_folder: str = "",
    ):
        if not isinstance(observations, list):
            raise TypeError("'observations' must be a list of str")
        for value in (level, renderer, temp_folder, *observations, *config, *config.values()):
            if not isinstance(value, str):
                raise TypeError(f"expected str, got {value!r}")
        for name in observations:
            if name not in ("RGB_INTERLEAVED", "INSTR"):
                raise ValueError(f"Unknown observation '{name}'.")
        unknown = set(config) - {"width", "height", "mixerSeed", "allowHoldOutLevels", "datasetPath"}
        if unknown:
            raise RuntimeError(f"Invalid setting {sorted(unknown)}")
        if runfiles_path and not os.path.isdir(runfiles_path):
            raise RuntimeError(f"Invalid runfiles path '{runfiles_path}'")
        if level not in LEVELS:
            raise RuntimeError(f'Failed to init environment - "Level not found: {level}"')
        numbers = [int(config.get(name, default)) for name, default in (("width", "320"), ("height", "240"))]
        if any(number <= 0 or number % 4 for number in numbers):
            raise RuntimeError(f"Failed to init environment - invalid size {numbers}")
        self._width, self._height = numbers
        self._mixer = int(config.get("mixerSeed", "0"))
        if not 0 <= self._mixer < 2**32:
            raise RuntimeError(f"Failed to init environment - invalid mixerSeed {self._mixer}")
        self._level, self._cache, self._observed = level, level_cache, observations
        self._pid = os.getpid()
        self._folder = tempfile.TemporaryDirectory(prefix="fake_dmlab_")
        self._closed = self._running = False
        self._episodes = self._seed = self._frame = self._turned = 0
        self.actions: list[tuple[np.ndarray, int]] = []
        self.renderings = 0

    def action_spec(self) -> list[dict[str, Any]]:
        """The controls."""
        self._check_open(crashes=True)
        ranges = [(-512, 512), (-512, 512), (-1, 1), (-1, 1), (0, 1), (0, 1), (0, 1)]
        shown = ranges[:2] if self._level == "own_actions" else ranges
        return [{"name": f"CONTROL_{i}", "min": low, "max": high} for i, (low, high) in enumerate(shown)]

    def reset(self, episode: int = -1, seed: int | None = None) -> bool:
        """Starts an episode."""
        self._check_open(crashes=True)
        if not isinstance(seed, int):
            raise ValueError(f"'seed' must be int, got {seed!r}")
        if not -(2**63) <= seed < 2**63 or not -(2**31) <= episode < 2**31:
            raise OverflowError("Python int too large to convert")
        if self._level == "no_map":
            raise WouldCrash("no map: the process ends with exit code 1")
        self._seed = seed % 2**31
        self._episodes += 1
        self._running = False
        if self._level == COMPILING:
            self._load_map(f"{self._seed} {self._mixer}")
        self._frame = self._turned = 0
        self._running = True
        return True

    def is_running(self) -> bool:
        """Whether an episode is under way."""
        return self._running

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        """Repeats an action; the sum of its frames' rewards."""
        self._check_open()
        if not isinstance(action, np.ndarray):
            raise TypeError(f"argument 1 must be numpy.ndarray, not {type(action).__name__}")
        if action.shape != (7,) or action.dtype != np.intc:
            raise ValueError(f"action must have shape (7,) and type intc, got {action!r}")
        if not isinstance(num_steps, int):
            raise TypeError(f"an integer is required, got {num_steps!r}")
        if not 0 <= num_steps < 2**31:
            raise OverflowError("Python int too large to convert")
        if self._level == "lua_error":
            raise WouldCrash("an error in the level's script aborts the process")
        if not action.flags.c_contiguous or not action.flags.owndata:
            raise WouldCrash(f"{action!r} would be misread: pass a new array")
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to step()")
        self.actions.append((action, num_steps))
        frames = min(num_steps, LEVELS[self._level] - self._frame)
        self._frame += frames
        self._turned += frames * int(action[0])
        self._running = self._frame < LEVELS[self._level]
        return float(frames * (0.25 * int(action[3]) + int(action[4])))

    def observations(self) -> dict[str, np.ndarray]:
        """The current observation, rendered now."""
        self._check_open()
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to observations()")
        self.renderings += 1
        # A simulator that has been played does not repeat the episode of a seed.
        entropy = [self._seed, self._mixer, self._episodes, self._frame, self._turned % 2**32]
        shape = (self._height, self._width, 3)
        everything = {
            "RGB_INTERLEAVED": np.random.default_rng(entropy).integers(256, size=shape, dtype="u1"),
            "INSTR": f"Pick the red object {self._seed % 7}" if "language" in self._level else "",
        }
        return {name: everything[name] for name in self._observed}

    def close(self) -> bool:
        """Ends the simulator; False if it had ended before."""
        if self._closed:
            return False
        self._closed, self._running = True, False
        self._folder.cleanup()
        return True

    def _check_open(self, crashes: bool = False) -> None:
        if os.getpid() != self._pid:
            raise WouldCrash("the simulator was created before the fork, and hangs after it")
        if self._closed:
            raise WouldCrash("closed") if crashes else RuntimeError("Environment in wrong status: closed")

    def _load_map(self, contents: str) -> None:
        key = hashlib.md5(contents.encode()).hexdigest()
        path = os.path.join(self._folder.name, f"{key}.pk3")
        if self._cache is not None and self._cache.fetch(key, path):
            if not zipfile.is_zipfile(path):
                raise WouldCrash(f"the level cache answered for {key}, and no pk3 file is at {path}")
            return
        compiled.append(key)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"maps/{key}.bsp", b"IBSP" + np.random.default_rng(list(key.encode())).bytes(100_000))
        if self._cache is not None:
            self._cache.write(key, path)
