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
import shutil
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
    "own_actions": 60,
}
"""Frames of an episode."""
COMPILING = "contributed/dmlab30/explore_goal_locations_small"
"""The level whose maps are compiled; other levels have prebuilt maps."""

ACTIONS = [
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512),
    ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1),
    ("MOVE_BACK_FORWARD", -1, 1),
    ("FIRE", 0, 1),
    ("JUMP", 0, 1),
    ("CROUCH", 0, 1),
    ("SWITCH_GADGET", -1, 1),
    ("SELECT_GADGET", 0, 10),
]
"""Names and ranges of the controls; only levels with custom actions have the last two."""
SETTINGS = {"width", "height", "mixerSeed", "allowHoldOutLevels", "datasetPath", "logLevel", "fps"}
_KINDS = {"": "sw", "software": "sw", "hardware": "hw"}
LIBRARIES = {renderer: f"libdmlab_headless_{kind}.so" for renderer, kind in _KINDS.items()}
_TRACEBACK = """%s
stack traceback:
\t[C]: in function 'error'
\t/runfiles/baselab/game_scripts/common/setting_overrides.lua:120: in function 'apiSetting'"""

compiled: list[str] = []
"""Keys of the maps compiled in this process."""
_runfiles = ""


class WouldCrash(BaseException):
    """The real module would have ended or hung the process here."""


def install(directory: str | os.PathLike[str]) -> str:
    """Writes a module `deepmind_lab` into a directory that is this fake, and its files; returns the directory."""
    names = "Lab, runfiles_path, set_runfiles_path"
    program = f"from {__name__} import {names}\nset_runfiles_path({str(directory)!r})\n"
    pathlib.Path(directory, "deepmind_lab.py").write_text(program, encoding="utf-8")
    for name in LIBRARIES.values():
        pathlib.Path(directory, name).touch()
    return str(directory)


def runfiles_path() -> str:
    """Where the simulator's files are."""
    return _runfiles


def set_runfiles_path(path: str) -> bool:
    """Says where the simulator's files are; read when a simulator starts."""
    global _runfiles
    _runfiles = path
    return True


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
        assert isinstance(observations, list)
        assert all(isinstance(value, str) for value in (level, *observations, *config, *config.values()))
        if _runfiles and not os.path.isfile(os.path.join(_runfiles, LIBRARIES[renderer])):
            raise RuntimeError("Failed to connect RL API")
        if unknown := set(config) - SETTINGS:
            error = _TRACEBACK % f"[string ...]: Invalid setting '{min(unknown)}'"
            raise RuntimeError(f'Failed to init environment - "{error}"')
        if level not in LEVELS:
            raise RuntimeError(f'Failed to init environment - "Level not found: {level}"')
        self._width, self._height = int(config["width"]), int(config["height"])
        self._mixer = int(config.get("mixerSeed", "0"))
        assert self._width > 0
        assert self._height > 0
        assert self._width % 4 == self._height % 4 == 0
        assert 0 <= self._mixer < 2**32
        self._level, self._cache, self._observed = level, level_cache, observations
        self._pid = os.getpid()
        self._closed = self._running = self._terminated = False
        self._episodes = self._seed = self._frame = self._turned = 0
        self._actions = ACTIONS if level == "own_actions" else ACTIONS[:7]
        for name in observations:
            if name not in self._everything():
                raise ValueError(f"Unknown observation '{name}'.")
        self._owned = None if temp_folder else tempfile.mkdtemp(prefix="dmlab_temp_folder_")
        self._folder = self._owned or temp_folder
        pathlib.Path(self._folder, "baselab").mkdir()
        self.actions: list[tuple[np.ndarray, int]] = []
        self.renderings = 0

    def action_spec(self) -> list[dict[str, Any]]:
        """The controls."""
        self._check_open(crashes=True)
        return [{"min": low, "max": high, "name": name} for name, low, high in self._actions]

    def reset(self, seed: int) -> bool:
        """Starts an episode."""
        self._check_open(crashes=True)
        assert isinstance(seed, int)
        assert -(2**63) <= seed < 2**63
        if self._level == "no_map":
            raise WouldCrash("the process ends with exit code 1: ERROR: Can't find map maps/no_map.bsp")
        self._seed = seed % 2**31
        self._episodes += 1
        self._running = False
        if self._level == COMPILING:
            self._load_map(f"{self._seed} {self._mixer}")
        self._frame = self._turned = 0
        self._running, self._terminated = True, False
        return True

    def is_running(self) -> bool:
        """Whether an episode is under way."""
        return self._running

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        """Repeats an action; the sum of its frames' rewards."""
        self._check_open()
        assert isinstance(action, np.ndarray)
        assert isinstance(num_steps, int)
        if self._terminated:
            raise RuntimeError("Environment has terminated in a previous step, call reset to advance.")
        if not self._running:
            raise RuntimeError("Environment in wrong status to advance.")
        assert action.shape == (len(self._actions),)
        assert action.dtype == np.intc
        if not action.flags.c_contiguous or not action.flags.owndata:
            raise WouldCrash(f"{action!r} would be misread: pass a new array")
        self.actions.append((action, num_steps))
        frames = min(max(0, num_steps), LEVELS[self._level] - self._frame)
        self._frame += frames
        self._turned += frames * int(action[0])
        self._running = self._frame < LEVELS[self._level]
        self._terminated = not self._running
        return float(frames * (0.25 * int(action[3]) + int(action[4])))

    def observations(self) -> dict[str, np.ndarray]:
        """The current observation, rendered now."""
        self._check_open()
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to observations()")
        self.renderings += 1
        everything = self._everything()
        return {name: everything[name] for name in self._observed}

    def _everything(self) -> dict[str, Any]:
        # A simulator that has been played does not repeat the episode of a seed.
        entropy = [self._seed, self._mixer, self._episodes, self._frame, self._turned % 2**32]
        shape = (self._height, self._width, 3)
        frame = np.random.default_rng(entropy).integers(256, size=shape, dtype="u1")
        instruction = ("blue", "Is it blue?")[self._seed % 2] if "language" in self._level else ""
        return {"RGB_INTERLEAVED": frame, "INSTR": instruction}

    def close(self) -> bool:
        """Ends the simulator; False if it had ended before."""
        if self._closed:
            return False
        self._closed, self._running, self._terminated = True, False, False
        if self._owned:
            shutil.rmtree(self._owned)
        return True

    def _check_open(self, crashes: bool = False) -> None:
        if os.getpid() != self._pid:
            raise WouldCrash("the simulator was created before the fork, and hangs after it")
        if self._closed:
            raise WouldCrash("closed") if crashes else RuntimeError("Environment in wrong status: closed")

    def _load_map(self, contents: str) -> None:
        key = f"{self._level.rpartition('/')[2]}_{hashlib.md5(contents.encode()).hexdigest()}"
        path = os.path.join(self._folder, "baselab", f"{key}.pk3")
        if self._cache is not None and self._cache.fetch(key, path):
            if not zipfile.is_zipfile(path):
                raise WouldCrash(f"the level cache answered for {key}, and no pk3 file is at {path}")
            return
        compiled.append(key)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"maps/{key}.bsp", b"IBSP" + np.random.default_rng(list(key.encode())).bytes(100_000))
        if self._cache is not None:
            self._cache.write(key, path)
