"""Gathers the observations of many streams into one batch, the only copy on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seed_rl.specs import ArraySpec, EnvSpec
from seed_rl.types import EnvOutput


class Staging:
    """Reusable arrays for batches of one size."""

    def __init__(self, env_spec: EnvSpec, size: int):
        """
        Args:
          env_spec: the spec of one environment.
          size: number of environments in a batch.
        """
        observation = {name: np.zeros((size, *spec.shape), spec.dtype) for name, spec in env_spec.observation_tensors()}
        self._names = () if isinstance(env_spec.observation, ArraySpec) else tuple(observation)
        reward, (done, last) = np.zeros(size, np.float32), np.zeros((2, size), bool)
        self.batch = EnvOutput(reward, done, last, observation if self._names else observation[""])
        """The whole batch, fields [size, ...]; rows that the last `fill` didn't write are stale."""
        self._arrays = self._tensors(self.batch)

    def fill(self, outputs: Sequence[EnvOutput]) -> None:
        """Copy consecutive pieces with fields [B_i, ...] into the first rows."""
        if len(outputs) == 1:
            for to, piece in zip(self._arrays, self._tensors(outputs[0]), strict=True):
                np.copyto(to[: len(piece)], piece)
            return
        pieces = [self._tensors(output) for output in outputs]
        rows = sum(len(tensors[0]) for tensors in pieces)
        for to, of_field in zip(self._arrays, zip(*pieces, strict=True), strict=True):
            np.concatenate(of_field, out=to[:rows])

    def _tensors(self, output: EnvOutput) -> list[np.ndarray]:
        observation = output.observation
        outcome = [output.reward, output.done, output.last]
        return [*outcome, *([observation[name] for name in self._names] or [observation])]
