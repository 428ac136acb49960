"""Hyperparameter search with Optuna: trains trials sequentially and prunes them by their learning curves.

The study is stored in the log directory, so that a restarted search continues.
"""

import contextlib
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.extras.studies.runs import Run, Trial, train_all
from seed_rl.extras.studies.sweep import Study, split_values
from seed_rl.foreign import printable
from seed_rl.reporting.metrics import settled_return
from seed_rl.reporting.text import short
from seed_rl.system.files import explaining, locking

STEPS = 20  # number of equal steps in a trial; it may be pruned after each step but the last
_FINISHED = "finished"
_STATES = {
    TrialState.COMPLETE: _FINISHED,
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "unfinished",
}
_LOG_RATIO = 10  # ratio of the bounds from which a range is searched on a logarithmic scale
_INTEGER = r"[-+]?\d(?:_?\d){0,17}"
_NUMBER = rf"({_INTEGER}(?:\.\d+)?(?:[eE][-+]?\d+)?)"


def read_space(searches: Sequence[str]) -> dict[str, BaseDistribution]:
    """Parse ranges such as `Optimizer.learning_rate=1e-4..1e-2` and choices such as `Catch.rows=5,7`.

    A range whose bounds are whole numbers contains only these. The scale is logarithmic if both bounds are positive and
    the upper one is at least ten times the lower one, otherwise linear. Raises a ConfigError for any other text.
    """
    found: dict[str, BaseDistribution] = {}
    for search in searches:
        name, _, text = map(str.strip, search.partition("="))
        if name in found:
            raise ConfigError(f"each setting may be given once, got {name} twice")
        bounds, choices = re.fullmatch(rf"{_NUMBER}\s*\.\.\s*{_NUMBER}", text), split_values(text)
        if name and bounds:
            found[name] = _range(search, *bounds.groups())
        elif name and len(choices) > 1 and all(choices):
            found[name] = CategoricalDistribution(list(dict.fromkeys(choices)))
        else:
            example = "such as Optimizer.learning_rate=1e-4..1e-2"
            raise ConfigError(f"expected NAME=LOW..HIGH or NAME=VALUE,VALUE,... {example}, got {search!r}")
    return found


def _range(search: str, *texts: str) -> BaseDistribution:
    is_whole = all(re.fullmatch(_INTEGER, text) for text in texts)
    low, high = map(int if is_whole else float, texts)
    if not low < high < math.inf:
        raise ConfigError(f"expected a range from a lower to a higher finite bound, got {search!r}")
    log = low > 0 and high >= _LOG_RATIO * low
    return IntDistribution(low, high, log) if is_whole else FloatDistribution(low, high, log)


def extremes(space: Mapping[str, BaseDistribution]) -> Iterator[str]:
    """Yield gin bindings for each bound and each choice, all of which the experiment must accept."""
    for name, values in space.items():
        is_choice = isinstance(values, CategoricalDistribution)
        yield from (f"{name} = {value}" for value in (values.choices if is_choice else (values.low, values.high)))


def text_of(value: Any, values: BaseDistribution) -> str:
    """Format a value for gin, rounded to about a thousandth of its range."""
    if isinstance(values, FloatDistribution):
        scale = value if values.log else values.high - values.low
        value = min(values.high, max(values.low, round(value, 3 - math.ceil(math.log10(scale)))))
    return str(value)


class _Suggested(Run):
    """A run with settings that Optuna suggested; its scores decide whether it is pruned."""

    def __init__(self, suggested: optuna.trial.Trial, search: "Search"):
        super().__init__(search.trial_of(suggested), search.arguments, search.directory)
        settings = ", ".join(f"{_head(name)}={text}" for name, text in self.trial.settings.items())
        self.title = f"{self.trial.name} ({settings})"
        self._suggested, self._experiment = suggested, search.experiment
        self._step = suggested.study.get_trials()[suggested.number].last_step or 0
        self._is_pruned = False

    def is_over(self) -> bool:
        """Report new scores to the pruner, a step's from the first row after it; return whether it prunes the trial."""
        before = self._step
        for frames, score in [] if self._is_pruned else _scores(self, self._experiment):
            while self._step < min(STEPS, int(STEPS * frames / self._experiment.total_frames)):
                self._step += 1
                self._suggested.report(score, self._step)
        self._is_pruned = self._is_pruned or (before < self._step < STEPS and self._suggested.should_prune())
        return self._is_pruned

    def end(self, say: Callable[[str], None]) -> None:
        """Tell Optuna the score, or that the trial was pruned or has failed."""
        study, curve = self._suggested.study, _last_score(self, self._experiment)
        if self.is_over():
            frames, score = curve[-1]
            say(f"pruned: {self.title} at {short(frames)} frames, score {score:.2f}")
            study.tell(self._suggested, state=TrialState.PRUNED)
        elif self.failure or not curve:
            self._suggested.set_user_attr("failure", self.failure or "no episode has ended")
            study.tell(self._suggested, state=TrialState.FAIL)
        else:
            study.tell(self._suggested, curve[-1][1])


def _scores(run: Run, experiment: Experiment) -> list[tuple[float, float]]:
    """Return pairs of environment frames and score, one for each row of a run with a settled score."""
    how = experiment.score, experiment.num_scored_envs
    rows = ((row["env_frames"], settled_return(row, *how)) for row in run.rows())
    return [(frames, score) for frames, score in rows if math.isfinite(score)]


def _last_score(run: Run, experiment: Experiment) -> list[tuple[float, float]]:
    """Return the last one of `_scores`; of a run without any, its last score after fewer episodes, or nothing."""
    few = [(row["env_frames"], row[experiment.score]) for row in run.rows() if experiment.score in row]
    return (_scores(run, experiment) or few)[-1:]


class Search(Study):
    """Trains trials sequentially with settings suggested by Optuna's TPE sampler, after an unfinished one.

    A failed trial is not replaced before the next call of `run`.
    """

    def __init__(
        self,
        searches: Sequence[str],
        arguments: Sequence[str],
        directory: str,
        experiment: Experiment,
        trials: int,
        prune_after: float,
    ):
        """Search the space of `read_space(searches)`, or raise a ConfigError if the directory can't be used for that.

        The `arguments` of `seed_rl train` are those of all trials, as is the `experiment`, whose seed is the sampler's,
        too. The number of `trials` to finish or prune includes those of earlier calls. Trials below the median of five
        or more are pruned after a share `prune_after` of their frames.
        """
        self.arguments, self.experiment = arguments, experiment
        self._space, self._count = read_space(searches), trials
        super().__init__(directory)
        given = [*arguments, *(f"--search={search}" for search in searches)]
        self._unusable = f"the study in {directory} can't be used"
        with explaining(ConfigError, self._unusable, Exception):  # of any type: Optuna replays journals unchecked
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            path = os.path.abspath(os.path.join(directory, "study.journal"))  # absolute: Optuna's lock is a link to it
            with contextlib.suppress(BlockingIOError), locking(os.path.join(directory, "lock")):
                _remove_torn_line(path)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(path)),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=math.ceil(prune_after * STEPS)),
                study_name="search",
                direction="maximize",
                load_if_exists=True,
            )
            saved = self._study.user_attrs.get("arguments", given)
            if saved != given:
                earlier = shlex.join(map(str, saved)) if isinstance(saved, list) else repr(saved)
                remedy = "choose another --logdir or pass these arguments to continue it"
                raise ConfigError(f"{directory} holds another search, seed_rl sweep {printable(earlier)}: {remedy}")
            self._study.get_trials()
            self._study.set_user_attr("arguments", given)

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        with explaining(ConfigError, self._unusable, OSError, ValueError), self.alone():
            scored = self._study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
            missing = max(0, self._count - len(scored))
            say(f"{missing} of {self._count} trials left, in {self.directory}")
            return train_all((self._next() for _ in range(missing)), stopped, say)

    def _next(self) -> _Suggested:
        """Return the unfinished trial if there is one, otherwise a new trial."""
        for left in self._study.get_trials(states=(TrialState.RUNNING,)):
            if len(left.params) == len(self._space):
                return _Suggested(optuna.trial.Trial(self._study, left._trial_id), self)
            self._study.tell(left.number, state=TrialState.FAIL)  # killed before it had all its settings
        # One seed per trial, because the sampler's state is not stored.
        number = len(self._study.get_trials())
        seed = np.random.SeedSequence([self.experiment.seed, number]).generate_state(1)
        self._study.sampler = optuna.samplers.TPESampler(seed=int(seed[0]))
        return _Suggested(self._study.ask(dict(self._space)), self)

    def trial_of(self, suggested: optuna.trial.Trial | FrozenTrial) -> Trial:
        """Return the settings that Optuna suggested as gin bindings."""
        values = suggested.params
        texts = {name: text_of(values[name], possible) for name, possible in self._space.items() if name in values}
        return Trial(f"trial_{suggested.number}", texts)

    def results(self) -> list[dict[str, Any]]:
        """Return one row per trial with settings, score, frames and state; finished trials first, best score first."""
        rows = map(self._row, self._study.get_trials())
        return sorted(rows, key=lambda row: (row["state"] != _FINISHED, -row.get("score", -math.inf)))

    def _row(self, found: FrozenTrial) -> dict[str, Any]:
        trial = self.trial_of(found)
        row = {"trial": found.number, **trial.settings, "state": _STATES[found.state]}
        for frames, score in _last_score(Run(trial, self.arguments, self.directory), self.experiment):
            row |= {"score": score, "frames": frames}
        return row | {key: text for key, text in found.user_attrs.items() if key == "failure"}

    def heads(self) -> dict[str, str | None]:
        settings = {name: _head(name) for name in self._space}
        return {"trial": "trial", **settings, "score": "score", "frames": "frames", "state": "state", "failure": None}

    def best_command(self) -> str:
        """Return the command that trains with the best finished trial's settings; empty if no trial has finished."""
        best = [row for row in self.results()[:1] if row["state"] == _FINISHED]
        settings = [f"--gin_param={name}={row[name]}" for row in best for name in self._space]
        return shlex.join(["seed_rl", "train", *self.arguments, *settings]) if best else ""


def _head(name: str) -> str:
    return name.rpartition(".")[2]


def _remove_torn_line(path: str) -> None:
    """Remove an incomplete last line, left by a full disk, which would corrupt the next line written."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
