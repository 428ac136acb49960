"""A stand-in for the `deepmind_lab` module, which has to be built and is rarely there.

It covers the part of the interface that seed_rl uses, and refuses what the real module refuses. The world is invented:
noise for frames, rewards for moving and firing.

    fake_deepmind_lab.install(directory)    # then put the directory on sys.path, or PYTHONPATH: spawned processes too
"""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import Any

import numpy as np

FRAMES = {
    "seekavoid_arena_01": 1_200,
    "lt_chasm": 18,
    "contributed/dmlab30/explore_goal_locations_small": 5_400,
    "contributed/dmlab30/language_select_described_object": 3_600,
}
"""Frames of an episode in each level."""
COMPILING = "contributed/dmlab30/explore_goal_locations_small"
"""The level whose maps are compiled; other levels have prebuilt maps."""
RANGES = ((-512, 512), (-512, 512), (-1, 1), (-1, 1), (0, 1), (0, 1), (0, 1))
SETTINGS = {"width", "height", "mixerSeed", "allowHoldOutLevels", "datasetPath"}
_directory = ""


def install(directory: str | os.PathLike[str]) -> str:
    """Writes a module `deepmind_lab` into a directory that is this fake, and its files; returns the directory."""
    program = f"from {__name__} import Lab, runfiles_path, set_runfiles_path\nset_runfiles_path({str(directory)!r})\n"
    pathlib.Path(directory, "deepmind_lab.py").write_text(program, encoding="utf-8")
    for kind in ("sw", "hw"):
        pathlib.Path(directory, f"libdmlab_headless_{kind}.so").touch()
    return str(directory)


def runfiles_path() -> str:
    return _directory


def set_runfiles_path(path: str) -> bool:
    global _directory
    _directory = path
    return True


class Lab:
    """A simulator of one level. Records the calls of `step` in `actions`, and counts `renderings`."""

    def __init__(
        self, level: str, observations: list[str], config: Any, renderer: str, level_cache: Any, temp_folder: str
    ):
        assert all(isinstance(value, str) for value in (level, renderer, *observations, *config, *config.values()))
        assert set(config) <= SETTINGS
        if level not in FRAMES:
            raise RuntimeError(f'Failed to init environment - "Level not found: {level}"')
        self.arguments = {"level": level, "observations": observations, "config": config, "renderer": renderer}
        self._shape, self._mixer = (int(config["height"]), int(config["width"]), 3), int(config.get("mixerSeed", "0"))
        self._frames, self._cache, self._folder = FRAMES[level], level_cache, temp_folder
        self._compiles = level == COMPILING
        self._frame = self._frames  # no episode is under way
        self._episodes = self._seed = self._turned = self.renderings = 0
        self.actions: list[tuple[np.ndarray, int]] = []

    def action_spec(self) -> list[dict[str, Any]]:
        return [{"min": low, "max": high, "name": str(n)} for n, (low, high) in enumerate(RANGES)]

    def reset(self, seed: int) -> bool:
        assert type(seed) is int
        assert 0 <= seed < 2**31
        self._seed, self._episodes = seed, self._episodes + 1
        self._frame = self._turned = 0
        path = os.path.join(self._folder, f"{seed}.pk3")
        if self._compiles and not (self._cache is not None and self._cache.fetch(f"{seed} {self._mixer}", path)):
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("maps/a.bsp", bytes(1000))
            if self._cache is not None:
                self._cache.write(f"{seed} {self._mixer}", path)
        return True

    def is_running(self) -> bool:
        return self._frame < self._frames

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        if not self.is_running():
            raise RuntimeError("Environment has terminated in a previous step, call reset to advance.")
        assert (action.shape, action.dtype, action.flags.owndata) == ((7,), np.intc, True)
        self.actions.append((action, num_steps))
        frames = min(num_steps, self._frames - self._frame)
        self._frame += frames
        self._turned += frames * int(action[0])
        return float(frames * (0.25 * int(action[3]) + int(action[4])))

    def observations(self) -> dict[str, Any]:
        """The current observation, rendered now; a simulator that has been played does not repeat an episode."""
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to observations()")
        self.renderings += 1
        entropy = [self._seed, self._mixer, self._episodes, self._frame, self._turned % 2**32]
        frame = np.random.default_rng(entropy).integers(256, size=self._shape, dtype="u1")
        every = {"RGB_INTERLEAVED": frame, "INSTR": "Is it blue?"}
        return {name: every[name] for name in self.arguments["observations"]}

    def close(self) -> bool:
        return True
