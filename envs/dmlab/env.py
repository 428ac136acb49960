"""One level of DeepMind Lab as a Gymnasium environment."""

import os
import string
import tempfile
import zlib
from typing import Any

import gymnasium
import numpy as np

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.dmlab.cache import LevelCache
from seed_rl.system.files import explaining

CONTROLS = {
    "look left/right": (-512, 512),
    "look down/up": (-512, 512),
    "strafe": (-1, 1),
    "move": (-1, 1),
    "fire": (0, 1),
    "jump": (0, 1),
    "crouch": (0, 1),
}
"""The seven components of a raw action, and their ranges, which the simulator does not enforce."""

MAX_WORDS = 16
"""Number of words of an instruction that are kept."""
VOCABULARY = 10_000
"""Words are hashed to ids from 1 to this, enough for common words not to collide."""

HELD_OUT_MIXER_SEED = 0x600D5EED
"""Mixed into the seeds of held-out levels, so that their maps never occur in training. In [0, 2^32)."""
_FRAME, _INSTRUCTION = "RGB_INTERLEAVED", "INSTR"


class DMLabEnv(gymnasium.Env):
    """One level, simulated in the process that resets it.

    The simulator has no observation for the end of an episode: the last step repeats the previous frame, and SAME_STEP
    autoreset replaces it.

    `reset(seed=...)` determines this episode and, through random draws, the seeds of later ones. A new environment
    plays the same episodes for the same seed and actions; one that has been played before may not.
    """

    def __init__(self, config: Any):  # DMLab, which imports this module
        self.observation_space, self.action_space = config.env_spaces
        self._config = config
        self._actions = config.actions
        self._observation: Any = None
        self._folder: Any = None
        self._lab: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the first time, start the simulator, or raise CannotBuild with its reason."""
        super().reset(seed=None if seed is None else int(seed))
        if self._lab is None:
            self._folder = tempfile.TemporaryDirectory(prefix="dmlab_temp_folder_", ignore_cleanup_errors=True)
            self._lab = _start(self._config, self._folder.name)
        # A Python integer below 2^31: the simulator rejects NumPy integers and truncates larger ones.
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else int(seed) % 2**31
        self._lab.reset(seed=episode_seed)
        self._observation = _read(self._lab)
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Repeat an action; the reward is the sum over its frames."""
        # A copy, because the simulator reads views incorrectly.
        reward = self._lab.step(self._actions[action].copy(), num_steps=self._config.num_action_repeats)
        running = self._lab.is_running()
        if running:
            self._observation = _read(self._lab)  # renders, so only once per step
        return self._observation, reward, not running, False, {}

    def close(self) -> None:
        """Close the simulator; calling a closed one would crash the process."""
        lab, self._lab = self._lab, None
        if lab is not None:
            lab.close()
            self._folder.cleanup()


def _start(config: Any, folder: str) -> Any:
    name = f"DeepMind Lab level {config.path}"
    with explaining(CannotBuild, "deepmind_lab can't be loaded", ImportError):
        import deepmind_lab
    settings = {"width": str(config.width), "height": str(config.height)}  # the simulator accepts only strings
    if config.held_out:
        settings |= {"allowHoldOutLevels": "true", "mixerSeed": str(HELD_OUT_MIXER_SEED)}
    if config.dataset_path:
        settings["datasetPath"] = config.dataset_path
    cache = LevelCache(config.level_cache) if config.level_cache else None
    library = f"libdmlab_headless_{'hw' if config.renderer == 'hardware' else 'sw'}.so"
    if not os.path.isfile(path := os.path.join(deepmind_lab.runfiles_path(), library)):
        reason = f"there is no {path!r}, which DMLab.renderer = {config.renderer!r} needs"
        raise CannotBuild(f"{name} can't be started: {reason}")
    wanted = [_FRAME, _INSTRUCTION] if config.gives_instructions else [_FRAME]
    with explaining(CannotBuild, f"{name} can't be started", RuntimeError, ValueError):
        lab = deepmind_lab.Lab(
            config.path, wanted, config=settings, renderer=config.renderer, level_cache=cache, temp_folder=folder
        )
    controls = lab.action_spec()
    if [(control["min"], control["max"]) for control in controls] != list(CONTROLS.values()):
        lab.close()
        names = ", ".join(control["name"] for control in controls)
        raise CannotBuild(f"{name} (DMLab.level) has other action components than DMLab.action_set: {names}")
    return lab


def _read(lab: Any) -> Any:
    """Render and return the current observation."""
    observations = lab.observations()
    if _INSTRUCTION not in observations:
        return observations[_FRAME]
    return {"frame": observations[_FRAME], "instruction": word_ids(observations[_INSTRUCTION])}


def word_ids(text: str) -> np.ndarray:
    """Ids from 1 to `VOCABULARY` of the first words of a text, then zeros: uint16 [MAX_WORDS]."""
    ids = np.zeros(MAX_WORDS, np.uint16)
    words = [word for each in text.lower().split() if (word := each.strip(string.punctuation))][:MAX_WORDS]
    ids[: len(words)] = [1 + zlib.crc32(word.encode()) % VOCABULARY for word in words]
    return ids
