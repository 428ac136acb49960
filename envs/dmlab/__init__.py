"""DeepMind Lab (arXiv:1612.03801): first-person 3D levels, including those of DMLab-30.

The package `deepmind_lab` is needed only where environments are built, not by the learner.
"""

import dataclasses
import functools
import itertools
import os
import pathlib
from typing import Annotated, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import CannotBuild, EnvConfig
from seed_rl.envs.dmlab.env import CONTROLS, MAX_WORDS, VOCABULARY, DMLabEnv
from seed_rl.envs.references import read_references
from seed_rl.envs.spaces import action_spec, observation_spec
from seed_rl.envs.vector.workers import WorkersVectorEnv
from seed_rl.settings import Count, OneOf, Place, Within
from seed_rl.specs import EnvSpec

FOLDER = "contributed/dmlab30/"
"""Where the simulator has the levels of DMLab-30."""
REFERENCES = read_references(pathlib.Path(__file__).with_name("scores.csv"))
"""Mean returns of humans and of random play (arXiv:1802.01561), keyed by the 30 levels that agents are scored on."""
TEST_TWINS = {
    "rooms_collect_good_objects_train": "rooms_collect_good_objects_test",
    "rooms_exploit_deferred_effects_train": "rooms_exploit_deferred_effects_test",
}
"""Levels that have separate versions for training and for scoring; all others have one version for both."""
DMLAB_30 = tuple(sorted({*REFERENCES, *TEST_TWINS}))
"""All levels, for training and for scoring."""
_WITH_PICTURES = ("arbitrary_visuomotor_mapping", "continuous_recognition")  # which don't come with DeepMind Lab

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


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DMLab(EnvConfig):
    """A level with colour frames and a few discrete actions."""

    suite: ClassVar[str] = "dmlab"
    task_setting: ClassVar[str] = "level"
    repeatable: ClassVar[bool] = False  # a simulator that has been used does not repeat the episode of a seed

    level: str = "rooms_watermaze"
    """Name of a DMLab-30 level, or full path of any other level, such as `contributed/psychlab/visual_search`."""
    width: Annotated[int, Within(4)] = 96
    """Width of frames, pixels, a multiple of 4."""
    height: Annotated[int, Within(4)] = 72
    """Height of frames, pixels, a multiple of 4."""
    num_action_repeats: Count = 4
    """Number of environment frames for which each action is repeated."""
    action_set: tuple[int, ...] = ()
    """The concatenated raw actions, seven numbers each (see `CONTROLS`); empty: the usual nine."""
    held_out: bool = False
    """Use maps, texts and objects that never occur in training, in levels that have them; for evaluation."""
    dataset_path: Annotated[str, Place()] = ""
    """Directory on the actors' machines with the pictures that two psychlab levels show."""
    level_cache: Annotated[str, Place(is_written=True)] = ""
    """Cache of compiled maps that all actors share: a directory, or a URL for fsspec; empty: no cache."""
    renderer: Annotated[str, OneOf("software", "hardware")] = "software"
    """Whether to render in software, or in hardware, which needs a GPU."""

    def __post_init__(self):
        super().__post_init__()
        if self.name in TEST_TWINS.values() and not self.held_out:
            raise ValueError(f"DMLab.held_out must be True in {self.level}, which is for evaluation only")
        for name in ("width", "height"):
            if getattr(self, name) % 4:
                raise ValueError(f"DMLab.{name} must be a multiple of 4, got {getattr(self, name)}")
        if len(self.action_set) % len(CONTROLS):
            wanted = f"{len(CONTROLS)} numbers for each action"
            raise ValueError(f"DMLab.action_set must hold {wanted}, got {self.action_set!r}")
        for number, (name, (low, high)) in zip(self.action_set, itertools.cycle(CONTROLS.items()), strict=False):
            if not low <= number <= high:
                raise ValueError(f"DMLab.action_set: {name} must be in [{low}, {high}], got {number}")

    @classmethod
    def tasks(cls) -> list[str]:
        return list(DMLAB_30)

    @property
    def packages(self) -> dict[str, str]:
        return {"deepmind_lab": "docs/dmlab.md says how to build it"}

    @property
    def path(self) -> str:
        """The level's path in the simulator."""
        return FOLDER + self.level if self.level in DMLAB_30 else self.level

    @property
    def name(self) -> str:
        """The level's name, without the folder of DMLab-30."""
        return self.level.removeprefix(FOLDER)

    @property
    def gives_instructions(self) -> bool:
        """Whether observations consist of `frame` and `instruction`, uint16 [16]: an id for each word, then zeros."""
        return self.name.rpartition("/")[2].startswith("language_")

    @property
    def actions(self) -> np.ndarray:
        """The raw action that each discrete action stands for, intc [N, 7]."""
        return np.array(self.action_set or DEFAULT_ACTIONS, np.intc).reshape(-1, len(CONTROLS))

    @property
    def action_repeat(self) -> int:
        return self.num_action_repeats

    @property
    def env_spaces(self) -> tuple[spaces.Box | spaces.Dict, spaces.Discrete]:
        """Observations and actions of one environment."""
        frame = spaces.Box(0, 255, (self.height, self.width, 3), np.uint8)
        words = spaces.Box(0, VOCABULARY, (MAX_WORDS,), np.uint16)
        observation = spaces.Dict({"frame": frame, "instruction": words}) if self.gives_instructions else frame
        return observation, spaces.Discrete(len(self.actions))

    def spec(self) -> EnvSpec:
        observation, action = self.env_spaces
        return EnvSpec(observation_spec(observation), action_spec(action))

    def human_normalised(self, mean_return: float) -> float | None:
        reference = REFERENCES.get(TEST_TWINS.get(self.name, self.name))
        return None if reference is None else reference.normalise(mean_return)

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        """Start a process per environment, because simulators hold the interpreter's lock; they start when reset."""
        first = os.path.join(self.dataset_path, "0001.png")
        if self.name.rpartition("/")[2].removeprefix("psychlab_") in _WITH_PICTURES and not os.path.isfile(first):
            raise CannotBuild(
                f"DMLab.dataset_path must name the directory of the pictures that {self.path} shows, but there is no "
                f"{first!r} here"
            )
        self.check_packages()
        name = f"DeepMind Lab level {self.path} (DMLab.level)"
        return WorkersVectorEnv([functools.partial(DMLabEnv, self)] * num_envs, name)
