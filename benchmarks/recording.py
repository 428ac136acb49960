"""Steps of real environments, recorded once and sent many times."""

from __future__ import annotations

import time

import numpy as np

from seed_rl.envs.base import EnvConfig, random_actions
from seed_rl.specs import ArraySpec
from seed_rl.types import EnvOutput

_OBSERVATION = "observation"


def record(config: EnvConfig, num_envs: int, steps: int, path: str, seed: int = 0) -> float:
    """Plays with random actions and writes what the environments say; the first step is the reset.

    Args:
      config: of the environments.
      num_envs: played in one group.
      steps: of each.
      path: of an .npz file with arrays [steps, num_envs, ...].
      seed: of environments and actions.

    Returns:
      Seconds that a step of the group took, the median.
    """
    rng = np.random.default_rng(seed)
    action = config.spec().action
    env = config.make(num_envs)
    try:
        observation, _ = env.reset(seed=seed)
        outputs = [EnvOutput(np.zeros(num_envs, np.float32), np.ones(num_envs, bool), observation)]
        seconds = []
        for _ in range(steps - 1):
            actions = random_actions(action, rng, num_envs)
            began = time.perf_counter()
            observation, reward, terminated, truncated, _ = env.step(actions)
            seconds.append(time.perf_counter() - began)
            outputs.append(EnvOutput(np.asarray(reward, np.float32), terminated | truncated, observation))
    finally:
        env.close()
    arrays = {"reward": np.stack([o.reward for o in outputs]), "done": np.stack([o.done for o in outputs])}
    if isinstance(config.spec().observation, ArraySpec):
        arrays[_OBSERVATION] = np.stack([o.observation for o in outputs])
    else:
        for name in outputs[0].observation:
            arrays[f"{_OBSERVATION}/{name}"] = np.stack([o.observation[name] for o in outputs])
    np.savez(path, **arrays)  # type: ignore[arg-type]  # its stub takes the names for those of its own parameters
    return float(np.median(seconds))


class Recording:
    """What `record` wrote, cut into groups of environments."""

    def __init__(self, path: str, group_size: int):
        """
        Args:
          path: of the file.
          group_size: environments of a group; at the most as many as were recorded.

        Raises:
          ValueError: fewer were recorded.
        """
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        self._reward, self._done = arrays.pop("reward"), arrays.pop("done")
        self._observations = {name.removeprefix(_OBSERVATION).lstrip("/"): array for name, array in arrays.items()}
        self.steps, recorded = self._reward.shape
        if group_size > recorded:
            raise ValueError(f"{recorded} environments were recorded: no group can have {group_size}")
        self._group_size = group_size
        self.groups = recorded // group_size
        """Different groups; streams beyond so many send the same from other steps on."""

    def output(self, group: int, step: int) -> EnvOutput:
        """What a group says in a step, fields [group_size, ...]; both wrap around: after the last step, a reset."""
        begin = group % self.groups * self._group_size
        where = (step % self.steps, slice(begin, begin + self._group_size))
        observations = {name: array[where] for name, array in self._observations.items()}
        return EnvOutput(self._reward[where], self._done[where], observations.get("", observations))
