"""DeepMind Lab (arXiv:1612.03801): three-dimensional levels seen in the first person, among them those of DMLab-30.

The package `deepmind_lab` is needed where environments are made only: a learner does without.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
from typing import Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs import dmlab_scores
from seed_rl.envs.base import EnvConfig
from seed_rl.envs.dmlab_cache import open_cache
from seed_rl.envs.dmlab_levels import is_scored, needs_dataset, path_of
from seed_rl.envs.processes import ProcessVectorEnv
from seed_rl.envs.registry import CannotBuild
from seed_rl.settings import check_at_least, check_one_of, check_types
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec

CONTROLS = {
    "look left/right": (-512, 512),
    "look down/up": (-512, 512),
    "strafe": (-1, 1),
    "move": (-1, 1),
    "fire": (0, 1),
    "jump": (0, 1),
    "crouch": (0, 1),
}
"""The seven numbers of a raw action with their ranges; the simulator does not enforce them."""

# fmt: off
DEFAULT_ACTIONS = (
    0, 0, 0, 1, 0, 0, 0,     # forward
    0, 0, 0, -1, 0, 0, 0,    # backward
    0, 0, -1, 0, 0, 0, 0,    # strafe left
    0, 0, 1, 0, 0, 0, 0,     # strafe right
    -20, 0, 0, 0, 0, 0, 0,   # look left
    20, 0, 0, 0, 0, 0, 0,    # look right
    -20, 0, 0, 1, 0, 0, 0,   # look left and go forward
    20, 0, 0, 1, 0, 0, 0,    # look right and go forward
    0, 0, 0, 0, 1, 0, 0,     # fire
)
# fmt: on
"""The nine actions of IMPALA and its successors."""

HELD_OUT_MIXER_SEED = 0x600D5EED
"""Mixed into the seeds of held-out levels, so that no map is one that training has seen. Within [0, 2^32)."""

_FRAMES = "RGB_INTERLEAVED"
_MISSING = (
    "the package deepmind_lab is not installed here, and no package index has it: run actors in the Docker image that "
    "docker/ describes, or build it with Bazel from https://github.com/google-deepmind/lab"
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DMLab(EnvConfig):
    """A level: color frames, a few discrete actions."""

    suite: ClassVar[str] = "dmlab"

    level: str = "rooms_watermaze"
    """Name of a level of DMLab-30, or the full path of any other, such as `contributed/psychlab/visual_search`."""
    width: int = 96
    """Pixels, a multiple of 4."""
    height: int = 72
    """Pixels, a multiple of 4."""
    num_action_repeats: int = 4
    """Frames that each action is repeated for."""
    action_set: tuple[int, ...] = ()
    """Raw actions to choose from, seven numbers each, one after the other (see `CONTROLS`); empty: the usual nine."""
    held_out: bool = False
    """Evaluation: maps, texts and objects that training never shows, where a level has such."""
    dataset_path: str = ""
    """Directory of the pictures that two of the psychlab levels show, on the actors."""
    runfiles_path: str = ""
    """Directory of the simulator's files on the actors, where it is not that of the package."""
    level_cache: str = ""
    """Where compiled maps are kept for all actors: a local directory, or a URL for fsspec; none: compile each time."""
    renderer: str = "software"
    """`software` or `hardware`."""

    def __post_init__(self):
        check_types(self)
        try:
            path_of(self.level)
        except ValueError as error:
            raise ValueError(f"DMLab.level: {error}") from error
        check_at_least(self, 4, "width", "height")
        for name in ("width", "height"):
            if getattr(self, name) % 4:
                raise ValueError(f"DMLab.{name} must be a multiple of 4, got {getattr(self, name)}")
        check_at_least(self, 1, "num_action_repeats")
        check_one_of(self, ("software", "hardware"), "renderer")
        if any(type(number) is not int for number in self.action_set) or len(self.action_set) % len(CONTROLS):
            raise ValueError(
                f"DMLab.action_set must hold integers, {len(CONTROLS)} for each action, got {self.action_set!r}"
            )
        for action in self.actions:
            for number, (name, (low, high)) in zip(action, CONTROLS.items(), strict=True):
                if not low <= number <= high:
                    raise ValueError(f"DMLab.action_set: {name} must be in [{low}, {high}], got {number} in {action}")

    @property
    def path(self) -> str:
        """The level's name in the simulator."""
        return path_of(self.level)

    @property
    def actions(self) -> list[tuple[int, ...]]:
        """The raw action behind each discrete one."""
        flat, n = self.action_set or DEFAULT_ACTIONS, len(CONTROLS)
        return [flat[i : i + n] for i in range(0, len(flat), n)]

    @property
    def action_repeat(self) -> int:
        return self.num_action_repeats

    def spec(self) -> EnvSpec:
        return EnvSpec(ArraySpec((self.height, self.width, 3), "uint8"), DiscreteSpec(len(self.actions)))

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        """Starts a process for each environment: the simulator never lets another thread run, and survives no fork.

        Raises:
          CannotBuild: something is missing on this machine; says what.
        """
        self._check_machine()
        observations, actions = _spaces(self)
        name = f"DeepMind Lab level {self.path}"
        return ProcessVectorEnv(functools.partial(DMLabEnv, self), num_envs, observations, actions, name)

    def _check_machine(self) -> None:
        if importlib.util.find_spec("deepmind_lab") is None:
            raise CannotBuild(_MISSING)
        if needs_dataset(self.path) and not self.dataset_path:
            raise CannotBuild(f"DMLab.dataset_path must name the directory of the pictures that {self.path} shows")
        for name in ("dataset_path", "runfiles_path"):
            path = getattr(self, name)
            if path and not os.path.isdir(path):
                raise CannotBuild(f"DMLab.{name}: there is no directory {path} on this machine")
        if self.level_cache:
            open_cache(self.level_cache)

    def human_normalised(self, mean_return: float) -> float | None:
        return dmlab_scores.human_normalised(self.level, mean_return) if is_scored(self.level) else None

    def lab_config(self) -> dict[str, str]:
        """The settings that go to the simulator itself, which takes nothing but strings."""
        config = {"width": str(self.width), "height": str(self.height)}
        if self.held_out:
            config |= {"allowHoldOutLevels": "true", "mixerSeed": str(HELD_OUT_MIXER_SEED)}
        if self.dataset_path:
            config["datasetPath"] = self.dataset_path
        return config


def _spaces(config: DMLab) -> tuple[spaces.Box, spaces.Discrete]:
    return spaces.Box(0, 255, (config.height, config.width, 3), np.uint8), spaces.Discrete(len(config.actions))


class DMLabEnv(gymnasium.Env):
    """One level of DeepMind Lab, in the process that creates it.

    The simulator has no observation for the end of an episode. With that step the last frame before it is returned
    once more; under SAME_STEP autoreset nobody sees it.

    The episode after `reset(seed=...)` is the one of that seed; later ones have seeds drawn from it.
    """

    def __init__(self, config: DMLab):
        """
        Raises:
          CannotBuild: the simulator refuses; the message says why.
        """
        self.observation_space, self.action_space = _spaces(config)
        self._name = f"DeepMind Lab level {config.path}"
        self._repeats = config.num_action_repeats
        self._actions = np.array(config.actions, np.intc)
        self._frame = np.zeros(self.observation_space.shape, np.uint8)
        self._running = False
        self._played = False
        self._lab = _start(config, self._name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode.

        Raises:
          RuntimeError: the simulator failed, or is closed.
        """
        lab = self._open_lab()
        super().reset(seed=None if seed is None else int(seed))
        # A Python integer below 2^32: the simulator refuses numpy's, and cuts off what is above.
        episode_seed = int(self.np_random.integers(2**32)) if seed is None else int(seed) % 2**32
        self._running = False
        try:
            if not self._played:  # the simulator's first episode is another than its later ones with the same seed
                lab.reset(seed=episode_seed)
                self._played = True
            lab.reset(seed=episode_seed)
            self._frame = lab.observations()[_FRAMES]
        except RuntimeError as error:
            raise RuntimeError(f"{self._name} can't be reset with seed {episode_seed}: {error}") from error
        self._running = True
        return self._frame, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Repeats an action; the reward is the sum over its frames.

        Raises:
          RuntimeError: the simulator failed, is closed, or has no episode under way.
        """
        lab = self._open_lab()
        if not self._running:
            raise RuntimeError(f"{self._name} has no episode under way: reset it")
        try:
            # A new array each time: of a view, the simulator would read something else.
            reward = lab.step(self._actions[action].copy(), num_steps=self._repeats)
            self._running = lab.is_running()
            if self._running:
                self._frame = lab.observations()[_FRAMES]  # renders: once per step
        except RuntimeError as error:
            raise RuntimeError(f"{self._name} can't be stepped: {error}") from error
        return self._frame, reward, not self._running, False, {}

    def close(self) -> None:
        """Ends the simulator; may be called again."""
        lab, self._lab = self._lab, None
        if lab is not None:
            lab.close()

    def _open_lab(self) -> Any:
        if self._lab is None:  # a closed simulator would end the process
            raise RuntimeError(f"{self._name} is closed")
        return self._lab


def _start(config: DMLab, name: str) -> Any:
    try:
        import deepmind_lab
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "deepmind_lab"
        raise CannotBuild(_MISSING if is_missing else f"deepmind_lab can't be loaded: {error}") from error
    if config.runfiles_path:
        deepmind_lab.set_runfiles_path(config.runfiles_path)
    cache = {"level_cache": open_cache(config.level_cache)} if config.level_cache else {}
    try:
        return deepmind_lab.Lab(config.path, [_FRAMES], config=config.lab_config(), renderer=config.renderer, **cache)
    except (RuntimeError, ValueError) as error:
        raise CannotBuild(f"{name} can't be started: {error}") from error
    except SystemError as error:  # how an error in the level cache comes out
        cause = error.__cause__ or error
        if not isinstance(cause, Exception):
            raise cause from None
        raise CannotBuild(f"{name} can't be started: {cause!r}") from cause
