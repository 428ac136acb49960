"""Atari 2600 games in ale-py's native vector environment, with the protocol of arXiv:1709.06009."""

import dataclasses
import functools
import pathlib
from typing import Annotated, Any, ClassVar

import ale_py
import gin
import numpy as np
from ale_py import roms
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import EnvConfig, Watchable
from seed_rl.envs.references import read_references
from seed_rl.envs.vector.final import ConvertedVectorEnv
from seed_rl.envs.vector.wrappers import FlatVectorEnv
from seed_rl.settings import Count, OneOf, UnitInterval, Within, did_you_mean
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec

REFERENCES = read_references(pathlib.Path(__file__).with_name("atari_scores.csv"))
"""Mean returns of humans and of random play in episodes that begin with no-ops (arXiv:1511.06581)."""
ATARI_57 = tuple(REFERENCES)
"""The games of the Atari-57 benchmark."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Atari(EnvConfig):
    """A game; observations are the pixel-wise maximum of the last two frames of each action."""

    suite: ClassVar[str] = "atari"
    task_setting: ClassVar[str] = "game"

    game: str = "pong"
    """Name of the ROM, such as `space_invaders`."""
    frame_skip: Count = 4
    """Number of environment frames for which each action is repeated."""
    max_noops: Annotated[int, Within(0)] = 30
    """Episodes begin with a number of no-op frames drawn uniformly from 0 to this."""
    sticky_actions: UnitInterval = 0.0
    """Probability that a frame repeats the previous action (0.25 in Machado et al.)."""
    full_action_set: bool = False
    """Use all 18 actions instead of the game's minimal set."""
    max_episode_frames: Count = 108_000
    """Episodes are truncated after this many frames (30 minutes of play), not counting no-ops."""
    frame_size: Annotated[int, Within(17, 160)] = 84
    """Height and width of observations; 42 takes a quarter of the bytes and, in the shallow network, a ninth of the
    work."""
    resize: Annotated[str, OneOf("area", "linear")] = "area"
    """How to resize the console's screen. `area` averages the pixels that each new one covers, in native code; `linear`
    interpolates between four pixels and skips others, exactly as OpenCV does, and as in the published results."""
    grayscale: bool = True
    """Whether observations are gray; in colour they have three channels."""
    terminal_on_life_loss: bool = False
    """End an episode with each life, without a reset of the game before the last one. Returns are then those of lives,
    also in evaluation."""
    fire_on_reset: bool = False
    """Press FIRE after a reset, in games that have it; the press replaces one of the no-ops."""
    blank_probability: UnitInterval = 0.0
    """Probability that an observation is blank, which makes a memory necessary (0.5 in arXiv:1507.06527)."""
    threads: Count = 1
    """Native threads that step a group's environments."""

    def __post_init__(self):
        super().__post_init__()
        if self.game not in games():
            known, guess = f"{len(games())} ROMs (`seed_rl envs atari`)", did_you_mean(self.game, games())
            raise ValueError(f"Atari.game must be one of {known}, got {self.game!r}.{guess}")

    @classmethod
    def tasks(cls) -> list[str]:
        return games()

    @property
    def action_repeat(self) -> int:
        return self.frame_skip

    def spec(self) -> EnvSpec:
        console, channels = _console(self.game), 1 if self.grayscale else 3
        actions = console.getLegalActionSet() if self.full_action_set else console.getMinimalActionSet()
        return EnvSpec(ArraySpec((self.frame_size, self.frame_size, channels), "uint8"), DiscreteSpec(len(actions)))

    def human_normalised(self, mean_return: float) -> float | None:
        reference = REFERENCES.get(self.game)  # of whole games
        return None if reference is None or self.terminal_on_life_loss else reference.normalise(mean_return)

    def make(self, num_envs: int) -> VectorEnv:
        if self.resize == "area":
            env = self._make(num_envs, (self.frame_size, self.frame_size))
        else:
            env = _LinearResize(self._make(num_envs, _console(self.game).getScreenDims()), self.frame_size)
        return FlatVectorEnv(_Blanks(env, self.blank_probability) if self.blank_probability else env)

    def watch(self) -> Watchable:
        """Draws the console's screen in colour."""
        screen = _console(self.game).getScreenDims()
        return _WithTwin(self.make(1), self._make(1, screen, grayscale=False))

    def _make(self, num_envs: int, size: tuple[int, int], **options: Any) -> VectorEnv:
        return _Consoles(
            self.game,
            num_envs,
            img_height=size[0],
            img_width=size[1],
            num_threads=min(self.threads, num_envs),
            max_num_frames_per_episode=self.max_episode_frames,
            repeat_action_probability=self.sticky_actions,
            full_action_space=self.full_action_set,
            autoreset_mode=AutoresetMode.SAME_STEP,
            stack_num=1,
            frameskip=self.frame_skip,
            noop_max=self.max_noops + 1,  # ale-py draws from 0 .. noop_max - 1
            reward_clipping=False,
            use_fire_reset=self.fire_on_reset,
            life_loss_info=self.terminal_on_life_loss,
            **{"grayscale": self.grayscale, **options},
        )


class _Consoles(ale_py.AtariVectorEnv):
    """A vector environment with private `metadata`: ale-py writes into that which all vector environments share.

    It shows no last observation of a truncated episode: ale-py's lacks the last frame, and has older ones in it.
    """

    metadata: ClassVar[dict[str, Any]] = {}

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        *results, info = super().step(actions)
        return *results, {name: values for name, values in info.items() if name != "final_obs"}


def games() -> list[str]:
    """The names of the games that come with ale-py."""
    return roms.get_all_rom_ids()


@functools.cache
def _console(game: str) -> ale_py.ALEInterface:
    """A console that runs a game, and never steps it: only its description is read."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = ale_py.ALEInterface()
    console.loadROM(roms.get_rom_path(game))
    return console


class _LinearResize(ConvertedVectorEnv):
    """Resizes screens uint8 [E, 1, H, W] or [E, 1, H, W, 3] to [E, C, S, S] exactly as OpenCV does (`INTER_LINEAR`).

    OpenCV itself would be larger than all other packages of an actor.
    """

    def __init__(self, env: VectorEnv, size: int):
        super().__init__(env)
        assert isinstance(env.single_observation_space, spaces.Box)
        _, *screen, channels = (*env.single_observation_space.shape, 1)[:4]
        self.single_observation_space = spaces.Box(0, 255, (channels, size, size), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        (self._top, self._bottom, *self._by_row), (self._left, self._right, *self._by_column) = (
            _neighbours(length, size) for length in screen
        )

    def convert(self, observation: np.ndarray, ended: np.ndarray) -> np.ndarray:
        screens = observation
        if screens.ndim == 5:
            screens = np.moveaxis(screens[:, 0], -1, 1)
        # OpenCV's fixed-point arithmetic: 11-bit weights, one rounding in between and one at the end.
        left, right = self._by_column
        rows = (np.take(screens, self._left, -1) * left + np.take(screens, self._right, -1) * right) >> 4
        upper, lower = (weight[:, None] for weight in self._by_row)
        sums = (np.take(rows, self._top, -2) * upper >> 16) + (np.take(rows, self._bottom, -2) * lower >> 16)
        return ((sums + 2) >> 2).astype(np.uint8)


def _neighbours(size: int, new_size: int) -> tuple[np.ndarray, ...]:
    """The two old pixels around the centre of each new pixel along an axis, and their 11-bit int32 weights."""
    centre = (np.arange(new_size) + 0.5) * (size / new_size) - 0.5
    before = np.floor(centre).astype(np.intp)
    weight = (centre - before).astype(np.float32)
    weights = (np.rint(2048 * part).astype(np.int32) for part in (1 - weight, weight))
    return before, np.minimum(before + 1, size - 1), *weights


class _Blanks(ConvertedVectorEnv):
    """Replaces observations by zeros with a probability, drawn for each environment in each step."""

    def __init__(self, env: VectorEnv, probability: float):
        super().__init__(env)
        self._probability, self._rng = probability, np.random.default_rng()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def convert(self, observation: np.ndarray, ended: np.ndarray) -> np.ndarray:
        shown = self._rng.random(len(observation)) >= self._probability
        return observation * shown.reshape(-1, *[1] * (observation.ndim - 1))


class _WithTwin(Watchable):
    """Draws the frames [1, 1, H, W, 3] of a twin environment, which gets the same seeds and actions."""

    def __init__(self, env: VectorEnv, twin: VectorEnv):
        super().__init__(env, lambda observation: self._frames[0, -1])
        self._twin = twin

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is None:
            raise ValueError("an environment and its twin need a seed to play the same episode")
        self._frames = self._twin.reset(seed=seed)[0]
        return self.env.reset(seed=seed)

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._frames = self._twin.step(actions)[0]
        return self.env.step(actions)

    def close(self, **kwargs: Any) -> None:
        self._twin.close(**kwargs)
        super().close(**kwargs)
