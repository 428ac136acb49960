"""How far a run is: counters and recent episodes, saved with its checkpoints."""

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.foreign import number
from seed_rl.inference.service import CentralInference
from seed_rl.reporting.metrics import EARLY, EVALUATION, RECENT_EPISODES, RECENT_EVAL_EPISODES, EpisodeWindow

_MOST_NUMBERS = 64  # metrics about episodes


@dataclasses.dataclass
class Counters:
    """Totals over all starts of a run."""

    learner_updates: int = 0
    """Batches learned from."""
    optimizer_steps: int = 0
    """Several for each batch, with `Experiment.passes` or `Experiment.minibatches`."""
    agent_steps: int = 0
    """Agent steps learned from, each counted once."""
    env_frames: int = 0
    """The same in environment frames: agent steps times the action repeat."""
    left_out_steps: int = 0
    """Optimizer steps that were left out, because their gradients were not finite."""
    seconds: float = 0.0
    """Wall-clock time spent training; without start-up, and without the time that a kill lost."""
    discarded_unrolls: int = 0
    """Unrolls in progress when the actor of their environments went away; in earlier starts of the run."""
    unrecorded_steps: int = 0
    """Agent steps before an environment's first unroll began; in earlier starts of the run."""


class Progress:
    """Counters, and windows over the latest episodes of training and evaluation environments."""

    def __init__(self, num_training_envs: int, own: np.ndarray):
        """The training environments have the lowest ids; reported are those that the agent plays itself, bool [N]."""
        self.counters = Counters()
        self.restored = False
        """Whether the run continues from a checkpoint."""
        self._num_training_envs, self._own = num_training_envs, own
        self.service: CentralInference | None = None
        """Counts in this start of the run, and has the episodes that have ended."""
        self._numbers: dict[str, collections.deque[float]] = {}
        self._windows = {"": EpisodeWindow(RECENT_EPISODES), "eval/": EpisodeWindow(RECENT_EVAL_EPISODES)}
        self._first_evaluated = EARLY * (len(own) - num_training_envs)
        self._evaluated = self._first_evaluated

    def _add_episodes(self) -> None:
        for episodes in self.service.take_episodes() if self.service else ():
            evaluated = episodes.env_ids >= self._num_training_envs
            own = self._own[episodes.env_ids]
            for prefix, which in (("", ~evaluated & own), ("eval/", evaluated & own)):
                self._windows[prefix].add(episodes.returns[which], episodes.lengths[which])
        for env_id, name, value in self.service.take_numbers() if self.service else ():
            if not self._own[env_id]:
                continue
            metric = f"{'eval/' * (env_id >= self._num_training_envs)}episode/{name}"
            if metric in self._numbers or len(self._numbers) < _MOST_NUMBERS:
                self._numbers.setdefault(metric, collections.deque(maxlen=RECENT_EPISODES)).append(value)

    def new_evaluation(self) -> float | None:
        """Return the mean return of the evaluation episodes since the last call that returned one, at most the latest
        30; None if there are fewer than ten."""
        window = self._windows["eval/"]
        if (new := window.count - self._evaluated) < EVALUATION:
            return None
        self._evaluated = window.count
        return window.means(new)["episode_return"]

    def totals(self) -> dict[str, Any]:
        """The counters, with the present counts of inference."""
        counters = dataclasses.asdict(self.counters)
        for thread in self.service.threads if self.service else ():
            counters["discarded_unrolls"] += thread.cursor.discarded_unrolls
            counters["unrecorded_steps"] += thread.cursor.unrecorded_steps
        return counters

    def gauges(self) -> dict[str, float]:
        """Means over the recent episodes; counts of all, and summed returns in training."""
        self._add_episodes()
        training, evaluation = self._windows[""], self._windows["eval/"]
        means = {f"{prefix}{name}": mean for prefix, own in self._windows.items() for name, mean in own.means().items()}
        numbers = {name: float(np.mean(values)) for name, values in self._numbers.items()}
        counts = {"episodes": training.count, "total_return": training.total_return}
        evaluations = {"eval/episodes": evaluation.count} if evaluation.count else {}
        return {**means, **numbers, **counts, **evaluations}

    def get_state(self) -> dict[str, Any]:
        """The state for `set_state`, as JSON values."""
        self._add_episodes()
        windows = {f"{prefix}episodes": window.get_state() for prefix, window in self._windows.items()}
        numbers = {name: list(values) for name, values in self._numbers.items()}
        return {"counters": self.totals(), **windows, "numbers": numbers}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take a state of `get_state`; raise KeyError, TypeError, ValueError or OverflowError if it is not one."""
        for prefix, window in self._windows.items():
            window.set_state(state[f"{prefix}episodes"])
        numbers = state.get("numbers", {})  # which earlier versions didn't save
        self._numbers = {name: collections.deque(map(float, own), RECENT_EPISODES) for name, own in numbers.items()}
        self._evaluated = max(self._windows["eval/"].count, self._first_evaluated)
        counters = Counters(**state["counters"])
        for field in dataclasses.fields(counters):
            value = number(vars(counters), field.name)
            if not 0 <= value < math.inf or (type(value) is float and type(field.default) is int):
                raise ValueError(f"{field.name} is {value}")
        self.counters, self.restored = counters, True
