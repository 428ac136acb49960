"""Atari 2600 games through ale-py's native vector environment (arXiv:1709.06009 for the protocol)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import ale_py
import gin
import gymnasium
import numpy as np
from ale_py import roms
from gymnasium.vector import AutoresetMode

from seed_rl.envs import atari_scores
from seed_rl.envs.base import EnvConfig
from seed_rl.envs.pictures import TwinPictures, Watchable
from seed_rl.settings import check_at_least, check_range, check_types
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec

FULL_ACTION_SET = 18
# fmt: off
ATARI_57 = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone", "beam_rider",
    "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber", "defender",
    "demon_attack", "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher", "gravitar", "hero",
    "ice_hockey", "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman",
    "name_this_game", "phoenix", "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank",
    "seaquest", "skiing", "solaris", "space_invaders", "star_gunner", "surround", "tennis", "time_pilot", "tutankham",
    "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge", "zaxxon",
)
# fmt: on
"""The games that papers report medians of (Atari-57)."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Atari(EnvConfig):
    """A game: grayscale frames of 84 x 84, the pixel-wise maximum of the last two of each action's frames."""

    suite: ClassVar[str] = "atari"

    game: str = "pong"
    """Name of a ROM, such as `space_invaders`."""
    frame_skip: int = 4
    """Frames that each action is repeated for."""
    max_noops: int = 30
    """Episodes begin with a random number of idle frames up to this."""
    sticky_actions: float = 0.0
    """Probability that a frame repeats the previous action instead (0.25 in Machado et al.)."""
    full_action_set: bool = False
    """All 18 actions instead of the game's own."""
    max_episode_frames: int = 108_000
    """Episodes are cut after this many frames (30 minutes of play)."""
    threads: int = 1
    """Native threads that step a group's environments."""

    def __post_init__(self):
        check_types(self)
        if self.game not in games():
            raise ValueError(f"Atari.game must be the snake_case name of one of {len(games())} ROMs, got {self.game!r}")
        check_at_least(self, 1, "frame_skip", "max_episode_frames", "threads")
        check_at_least(self, 0, "max_noops")
        check_range(self, 0, 1, "sticky_actions")

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
        return atari_scores.human_normalised(self.game, mean_return)

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return _ChannelsLast(self._make(num_envs))

    def watch(self) -> Watchable:
        """Shows the console's screen in colours."""
        return TwinPictures(self.make(1), self._make(1, grayscale=False, img_height=210, img_width=160))

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


class _ChannelsLast(gymnasium.vector.VectorWrapper):
    """Presents frames [E, 1, 84, 84] as [E, 84, 84, 1] (the same bytes) and says nothing but what actors need."""

    def __init__(self, env: ale_py.AtariVectorEnv):
        super().__init__(env)
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 1), np.uint8)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        frames, info = self.env.reset(seed=seed, options=options)
        return frames.reshape(-1, 84, 84, 1), info

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        frames, reward, terminated, truncated, info = self.env.step(actions)
        return frames.reshape(-1, 84, 84, 1), reward, terminated, truncated, info
