"""A strict stand-in for the `deepmind_lab` module, which has to be built and is rarely there.

It answers as the real one does, errors included. What would end or hang a process there raises `WouldCrash`, which no
handler of errors catches; so does what was never seen on the real one. The world is invented: noise for frames, rewards
for moving and firing, and of each kind of level one or two.

    fake_deepmind_lab.install(directory)    # then put the directory on sys.path, or PYTHONPATH: spawned processes too
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
import time
import zipfile
from typing import Any, NamedTuple, NoReturn

import numpy as np


class WouldCrash(BaseException):
    """The real module would have ended or hung the process here."""


class Level(NamedTuple):
    """What there is to know of a level."""

    frames: int
    """Of an episode."""
    compiles: str = ""
    """When maps are compiled: at `reset`, at the `start` of the simulator, or never, for they are prebuilt."""
    needs_dataset: bool = False


LEVELS = {
    "seekavoid_arena_01": Level(3_600),
    "lt_chasm": Level(18),
    "contributed/dmlab30/rooms_watermaze": Level(7_200),
    "contributed/dmlab30/explore_goal_locations_small": Level(5_400, compiles="reset"),
    "contributed/dmlab30/explore_obstructed_goals_small": Level(5_400, compiles="reset"),
    "contributed/dmlab30/skymaze_irreversible_path_hard": Level(3_600, compiles="start"),
    "contributed/dmlab30/psychlab_visual_search": Level(18_000),
    "contributed/dmlab30/psychlab_continuous_recognition": Level(18_000, needs_dataset=True),
}

_OBSERVATIONS = {
    "RGB_INTERLEAVED": lambda height, width: (height, width, 3),
    "RGBD_INTERLEAVED": lambda height, width: (height, width, 4),
    "RGB": lambda height, width: (3, height, width),
    "INSTR": lambda height, width: (),
}
_ACTIONS = (
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512),
    ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1),
    ("MOVE_BACK_FORWARD", -1, 1),
    ("FIRE", 0, 1),
    ("JUMP", 0, 1),
    ("CROUCH", 0, 1),
)

compiled: list[str] = []
"""Keys of the maps compiled in this process."""
runfiles_path = ""


def install(directory: str | os.PathLike[str]) -> str:
    """Writes a module `deepmind_lab` into a directory that is this fake; returns the directory."""
    names = "Lab, set_runfiles_path"
    pathlib.Path(directory, "deepmind_lab.py").write_text(f"from {__name__} import {names}\n", encoding="utf-8")
    return str(directory)


def set_runfiles_path(path: str) -> None:
    """Says where the simulator's files are; looked at when a simulator starts."""
    global runfiles_path
    if not isinstance(path, str):
        raise TypeError(f"argument 1 must be str, not {type(path).__name__}")
    runfiles_path = path


class Lab:
    """A simulator of one level."""

    def __init__(
        self,
        level: str,
        observations: list[str],
        config: dict[str, str] = {},  # noqa: B006 (as it is)
        renderer: str = "software",
        level_cache: Any = None,
        temp_folder: str = "",
    ):
        if not isinstance(observations, list) or not all(isinstance(name, str) for name in observations):
            raise TypeError("'observations' must be a list of str")
        _check_strings(level, config, renderer, temp_folder)
        for name in observations:
            if name not in _OBSERVATIONS:
                raise ValueError(f"Unknown observation '{name}'.")
        if renderer not in ("software", "hardware"):
            raise WouldCrash(f"nobody has tried the renderer {renderer!r}")
        if runfiles_path and not os.path.isdir(runfiles_path):
            raise RuntimeError(f"Invalid runfiles path '{runfiles_path}'")
        self._level = _find(level, config)
        self._width, self._height = _size(config, "width", "320"), _size(config, "height", "240")
        self._mixer = _mixer_seed(config)
        self._names, self._cache, self._path = observations, level_cache, level
        self._pid = os.getpid()
        self._folder = tempfile.TemporaryDirectory(prefix="fake_dmlab_", dir=temp_folder or None)
        self._closed = self._running = False
        self._episodes = self._seed = self._frame = self._requested = self._turned = 0
        self.renderings = 0
        if self._level.compiles == "start":
            try:
                self._load_map(f"{level} start")
            except BaseException as error:
                raise SystemError(f"{Lab!r} returned a result with an exception set") from error

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'deepmind_lab.Lab' object")

    def observation_spec(self) -> list[dict[str, Any]]:
        """Name, shape and dtype of each observation there is."""
        self._touch("observation_spec", crashes=True)
        return [
            {
                "name": name,
                "shape": shape(self._height, self._width),
                "dtype": str if name == "INSTR" else np.uint8,
            }
            for name, shape in _OBSERVATIONS.items()
        ]

    def action_spec(self) -> list[dict[str, Any]]:
        """Range and name of each of the seven numbers of an action."""
        self._touch("action_spec", crashes=True)
        return [{"min": low, "max": high, "name": name} for name, low, high in _ACTIONS]

    def reset(self, episode: int = -1, seed: int | None = None) -> None:
        """Starts an episode."""
        self._touch("reset", crashes=True)
        if type(episode) is not int or type(seed) not in (int, type(None)):
            raise ValueError(f"'episode' and 'seed' must be int, got {episode!r} and {seed!r}")
        self._seed = (time.time_ns() if seed is None else seed) % 2**32
        self._episodes += 1
        self._running = False
        if self._level.compiles == "reset":
            self._load_map(f"{self._path} {self._seed} {self._mixer}")
        self._frame = self._requested = self._turned = 0
        self._running = True

    def is_running(self) -> bool:
        """Whether an episode is under way."""
        self._touch("is_running", crashes=True)
        return self._running

    def num_steps(self) -> int:
        """Frames asked for since the last reset, those after the end of the episode too."""
        self._touch("num_steps", crashes=True)
        return self._requested

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        """Repeats an action; the sum of its frames' rewards."""
        self._touch("step")
        if not isinstance(action, np.ndarray):
            raise TypeError(f"argument 1 must be numpy.ndarray, not {type(action).__name__}")
        if action.shape != (len(_ACTIONS),) or action.dtype.newbyteorder("=") != np.intc:
            raise ValueError(f"action must have shape ({len(_ACTIONS)},) and type intc, got {action!r}")
        if not action.flags.c_contiguous or not action.dtype.isnative:
            raise WouldCrash(f"{action!r} would be misread: pass a contiguous array in native byte order")
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to step()")
        frames = min(num_steps, self._level.frames - self._frame)
        self._requested += num_steps
        self._frame += frames
        self._turned += frames * int(action[0])
        self._running = self._frame < self._level.frames
        return float(frames * (0.25 * int(action[3]) + int(action[4])))

    def observations(self) -> dict[str, Any]:
        """The current observations, rendered now."""
        self._touch("observations")
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to observations()")
        self.renderings += 1
        # The first episode differs from later ones with the same seed.
        entropy = [self._seed, self._mixer, self._episodes == 1, self._frame, self._turned % 2**32]
        shapes = {name: _OBSERVATIONS[name](self._height, self._width) for name in self._names}
        return {
            name: "find it" if name == "INSTR" else np.random.default_rng(entropy).integers(256, size=shape, dtype="u1")
            for name, shape in shapes.items()
        }

    def events(self) -> list[tuple[str, list[Any]]]:
        """What happened in the last step."""
        self._touch("events")
        return []

    def close(self) -> bool:
        """Ends the simulator; False if it had ended before."""
        if self._closed:
            return False
        self._closed, self._running = True, False
        self._folder.cleanup()
        return True

    def _touch(self, method: str, crashes: bool = False) -> None:
        if os.getpid() != self._pid:
            raise WouldCrash(f"{method}: the simulator was created before the fork, and hangs after it")
        if self._closed and crashes:
            raise WouldCrash(f"{method}: the simulator is closed")
        if self._closed:
            raise RuntimeError("Environment in wrong status: closed")

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
            archive.writestr(f"maps/{key}.aas", bytes(10_000))
        if self._cache is not None:
            self._cache.write(key, path)


def _check_strings(level: Any, config: Any, renderer: Any, temp_folder: Any) -> None:
    if not isinstance(config, dict):
        raise TypeError(f"'config' must be dict, not {type(config).__name__}")
    for value in (level, renderer, temp_folder, *config, *config.values()):
        if not isinstance(value, str):
            raise TypeError(f"expected str, got {value!r}")


def _find(level: str, config: dict[str, str]) -> Level:
    if level not in LEVELS:
        raise RuntimeError(f'Failed to init environment - "Level not found: {level}"')
    if LEVELS[level].needs_dataset and not config.get("datasetPath"):
        raise RuntimeError(f'Failed to init environment - "{level}: no dataset"')
    return LEVELS[level]


def _size(config: dict[str, str], name: str, default: str) -> int:
    text = config.get(name, default)
    if not text.isdecimal() or int(text) < 4 or int(text) % 4:
        raise RuntimeError(f"Failed to init environment - invalid {name} '{text}'")
    return int(text)


def _mixer_seed(config: dict[str, str]) -> int:
    text = config.get("mixerSeed", "0")
    if not text.isdecimal() or int(text) >= 2**32:
        raise RuntimeError(f"Failed to init environment - invalid mixerSeed '{text}'")
    return int(text)
