"""Atari 2600 games through ale-py's native vector environment (arXiv:1709.06009 for the protocol)."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Any, ClassVar

import ale_py
import gin
import gymnasium
import numpy as np
from ale_py import roms
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import EnvConfig, Watchable, read_references
from seed_rl.envs.wrappers import FlatVectorEnv
from seed_rl.settings import Count, Share, Within
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec

FULL_ACTION_SET = 18
REFERENCES = read_references(pathlib.Path(__file__).with_name("atari_scores.csv"))
"""Mean returns of humans and of random play, in episodes that begin with no-ops (arXiv:1511.06581)."""
ATARI_57 = tuple(REFERENCES)
"""The games that papers report medians over (Atari-57)."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Atari(EnvConfig):
    """A game: grayscale frames of 84 x 84, the pixel-wise maximum of the last two frames of each action."""

    suite: ClassVar[str] = "atari"

    game: str = "pong"
    """Name of a ROM, such as `space_invaders`."""
    frame_skip: Count = 4
    """Environment frames that each action is repeated for."""
    max_noops: Annotated[int, Within(0)] = 30
    """Episodes begin with a random number of no-op frames, at most this many."""
    sticky_actions: Share = 0.0
    """Probability that a frame repeats the previous action (0.25 in Machado et al.)."""
    full_action_set: bool = False
    """All 18 actions instead of the game's minimal set."""
    max_episode_frames: Count = 108_000
    """Episodes are truncated after this many frames (30 minutes of play)."""
    threads: Count = 1
    """Native threads that step a group's environments."""

    def __post_init__(self):
        super().__post_init__()
        if self.game not in games():
            raise ValueError(f"Atari.game must be the snake_case name of one of {len(games())} ROMs, got {self.game!r}")

    @property
    def action_repeat(self) -> int:
        return self.frame_skip

    def spec(self) -> EnvSpec:
        num_actions = FULL_ACTION_SET
        if not self.full_action_set:
            ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
            ale = ale_py.ALEInterface()
            ale.loadROM(roms.get_rom_path(self.game))
            num_actions = len(ale.getMinimalActionSet())
        return EnvSpec(ArraySpec((84, 84, 1), "uint8"), DiscreteSpec(num_actions))

    def human_normalised(self, mean_return: float) -> float | None:
        reference = REFERENCES.get(self.game)
        return None if reference is None else reference.normalise(mean_return)

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return FlatVectorEnv(self._make(num_envs))

    def watch(self) -> Watchable:
        """Shows the console's screen in colour."""
        return _TwinPictures(self.make(1), self._make(1, grayscale=False, img_height=210, img_width=160))

    def _make(self, num_envs: int, **options: Any) -> ale_py.AtariVectorEnv:
        return ale_py.AtariVectorEnv(
            self.game,
            num_envs,
            num_threads=min(self.threads, num_envs),
            max_num_frames_per_episode=self.max_episode_frames,
            repeat_action_probability=self.sticky_actions,
            full_action_space=self.full_action_set,
            autoreset_mode=AutoresetMode.SAME_STEP,
            stack_num=1,
            frameskip=self.frame_skip,
            noop_max=self.max_noops,
            reward_clipping=False,
            use_fire_reset=False,
            **options,
        )


def games() -> list[str]:
    """Names of the games that ale-py ships."""
    return roms.get_all_rom_ids()


class _TwinPictures(Watchable):
    """Shows the frames [1, 1, H, W, 3] of a twin, which gets the same seeds and actions."""

    def __init__(self, env: gymnasium.vector.VectorEnv, twin: gymnasium.vector.VectorEnv):
        super().__init__(env)
        self._twin = twin
        self._frames: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts the same episode in both, for which they need a seed (ValueError without)."""
        if seed is None:
            raise ValueError("twins need a seed to do the same")
        self._frames, _ = self._twin.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps both with the same actions."""
        self._frames = self._twin.step(actions)[0]
        return self.env.step(actions)

    def picture(self, observation: Any) -> np.ndarray:
        return self._frames[0, -1]

    def close(self, **kwargs: Any) -> None:
        """Closes both."""
        self._twin.close(**kwargs)
        super().close(**kwargs)
