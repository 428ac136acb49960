"""A stand-in for the `deepmind_lab` module, which has to be built and is rarely there.

It covers the part of the interface that seed_rl uses, and refuses what the real module refuses. The world is invented:
noise for frames, rewards for moving and firing.
"""

import os
import zipfile

import numpy as np

FRAMES = {"seekavoid_arena_01": 1_200, "contributed/dmlab30/language_select_described_object": 22}
"""Frames of an episode in each level; the maps of the last one are compiled."""
RANGES = ((-512, 512), (-512, 512), (-1, 1), (-1, 1), (0, 1), (0, 1), (0, 1))


def install(directory):
    """Write a module `deepmind_lab` that is this fake, and its libraries, into a directory, which is to be imported."""
    program = f"from {__name__} import Lab\n\n\ndef runfiles_path():\n    return {str(directory)!r}\n"
    (directory / "deepmind_lab.py").write_text(program)
    for kind in ("sw", "hw"):
        (directory / f"libdmlab_headless_{kind}.so").touch()


class Lab:
    """A simulator of one level. Records its `settings` and the `actions` of its steps, and counts `renderings`."""

    def __init__(self, level, observations, config, renderer, level_cache, temp_folder):
        assert all(isinstance(value, str) for value in (level, renderer, *observations, *config, *config.values()))
        if level not in FRAMES:
            raise RuntimeError(f'Failed to init environment - "Level not found: {level}"')
        self.settings, self.actions, self.renderings = config | {"renderer": renderer}, [], 0
        self._names, self._cache, self._folder = observations, level_cache, temp_folder
        self._shape = int(config["height"]), int(config["width"]), 3
        self._frame = self._frames = FRAMES[level]  # no episode is under way
        self._episodes = 0

    def action_spec(self):
        return [{"min": low, "max": high, "name": str(n)} for n, (low, high) in enumerate(RANGES)]

    def reset(self, seed):
        assert type(seed) is int
        assert 0 <= seed < 2**31
        self._seed, self._episodes, self._frame = seed, self._episodes + 1, 0
        path = os.path.join(self._folder, f"{seed}.pk3")
        if self._cache is not None and not self._cache.fetch(str(seed), path):
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("maps/a.bsp", bytes(1000))
            self._cache.write(str(seed), path)

    def is_running(self):
        return self._frame < self._frames

    def step(self, action, num_steps=1):
        assert self.is_running(), "an environment that has terminated must be reset"
        assert (action.shape, action.dtype, action.flags.owndata) == ((7,), np.intc, True)
        self.actions.append(action)
        frames = min(num_steps, self._frames - self._frame)
        self._frame += frames
        return float(frames * (0.25 * int(action[3]) + int(action[4])))

    def observations(self):
        """The current observation; a simulator that has been played does not repeat an episode."""
        assert self.is_running(), "the end of an episode can't be seen"
        self.renderings += 1
        entropy = [self._seed, self._episodes, self._frame]
        frame = np.random.default_rng(entropy).integers(256, size=self._shape, dtype="u1")
        every = {"RGB_INTERLEAVED": frame, "INSTR": "Is it blue?"}
        return {name: every[name] for name in self._names}

    def close(self):
        pass
