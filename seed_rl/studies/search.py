"""A search for settings with Optuna: trials are trained one after the other, and pruned by their learning curves.

The study is in the log directory, so that the same search goes on when it is started again.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from seed_rl.experiment import ConfigError
from seed_rl.foreign import printable
from seed_rl.reporting import metrics
from seed_rl.reporting.text import short
from seed_rl.studies.search_space import Space, read_space, text_of
from seed_rl.studies.trial import Trainer, Trial, table
from seed_rl.system.files import locked, reason

STEPS = 20
"""Of equal length, in a trial; after each but the last it may be pruned."""
_FINISHED = "finished"
_STATES = {
    TrialState.COMPLETE: _FINISHED,
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "unfinished",
}


def median_pruner(prune_after: float) -> optuna.pruners.BasePruner:
    """Prunes a trial whose best score so far is below the median of finished trials at the same step.

    None is pruned before five trials have finished, nor before a share `prune_after` of its frames.
    """
    return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=math.ceil(prune_after * STEPS))


class Search:
    """Trains trials, one after the other, with the values that Optuna's TPE sampler suggests."""

    def __init__(
        self,
        searches: Sequence[str],
        arguments: Sequence[str],
        directory: str,
        *,
        trials: int,
        total_frames: int,
        metric: str,
        seed: int,
        pruner: optuna.pruners.BasePruner,
    ):
        """
        Args:
          searches: the search space, as for `read_space`.
          arguments: of `seed_rl train`, for all trials.
          directory: holds the study and the log directories; made if need be.
          trials: to finish or to prune, with those of earlier calls.
          total_frames: of a trial.
          metric: in the rows of a run, to maximise.
          seed: of the sampler.
          pruner: compares trials at steps 1, ..., `STEPS` of equal length; it isn't asked at the last.

        Raises:
          ConfigError: the directory can't be used, or holds another search.
        """
        self._count, self._total_frames, self._metric, self._seed = trials, total_frames, metric, seed
        self._space, self._arguments = read_space(searches), arguments
        self._trainer = Trainer(arguments, directory)
        given = [*arguments, *(f"--search={search}" for search in searches)]
        with self._usable():
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            path = os.path.abspath(os.path.join(directory, "study.journal"))  # its lock is a link to it
            with contextlib.suppress(BlockingIOError), locked(os.path.join(directory, "lock")):
                _remove_torn_line(path)
            self._study = _open_study(path, pruner)
            saved = self._study.user_attrs.get("arguments", given)
            if saved != given:
                earlier = shlex.join(map(str, saved)) if isinstance(saved, list) else repr(saved)
                raise ConfigError(
                    f"{directory} holds another search, seed_rl sweep {printable(earlier)}: choose another --logdir, "
                    "or these arguments to continue it"
                )
            for found in self._study.get_trials():
                _check(found, self._space)
            self._study.set_user_attr("arguments", given)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Reports that the study can't be read or written."""
        try:
            yield
        except (OSError, ValueError) as error:
            text = reason(error) if isinstance(error, OSError) else str(error)
            raise ConfigError(f"the study in {self._trainer.directory} can't be used: {text}") from error

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Trains until all trials are finished or pruned; the exit code is the first of a run that is not 0.

        A trial that was left unfinished goes on first. One that fails has no successor before the next call, which has
        then to do one more.

        Args:
          stopped: polled; once true, the run in progress saves a checkpoint and ends.
          say: gets a line for each run that begins or ends.

        Raises:
          ConfigError: another process searches in the directory, or the study can't be written.
        """
        directory = self._trainer.directory
        with self._usable(), contextlib.ExitStack() as cleanup:
            try:
                cleanup.enter_context(locked(os.path.join(directory, "lock")))
            except BlockingIOError:
                raise ConfigError(f"another search is running in {directory}") from None
            scored = self._study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
            missing = max(0, self._count - len(scored))
            say(f"{missing} of {self._count} trials to do, in {directory}")
            codes: list[int] = []
            while len(codes) < missing and not stopped():
                codes.append(self._train(self._next(), stopped, say))
        return next(filter(None, codes), 0)

    def _next(self) -> optuna.trial.Trial:
        """The trial that was left unfinished, else a new one."""
        for left in self._study.get_trials(states=(TrialState.RUNNING,)):
            if len(left.params) == len(self._space):
                return optuna.trial.Trial(self._study, left._trial_id)
            self._study.tell(left.number, state=TrialState.FAIL)  # the search was killed before all were suggested
        # A seed for each trial: the state of a sampler ends with its process.
        number = len(self._study.get_trials())
        seed = np.random.SeedSequence([self._seed, number]).generate_state(1)
        self._study.sampler = optuna.samplers.TPESampler(seed=int(seed[0]))
        return self._study.ask(dict(self._space))

    def _train(self, suggested: optuna.trial.Trial, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Trains a trial and records how it ended; returns the exit code of its run, 0 if it was pruned."""
        trial = self._trial(suggested)
        title = f"{trial.name} ({', '.join(f'{_head(name)}={text}' for name, text in trial.settings.items())})"
        prunes = self._judge(suggested, trial)
        code = self._trainer.train(trial, title, lambda: prunes() or stopped(), say)
        curve = self._curve(trial)
        if prunes():
            frames, score = curve[-1]
            say(f"prunes: {title} at {short(frames)} frames, score {score:.2f}")
            self._study.tell(suggested, state=TrialState.PRUNED)
            return 0
        if stopped():
            return code
        if code or not curve:
            suggested.set_user_attr("failure", self._trainer.failures.get(trial.name, "no episode has ended"))
            self._study.tell(suggested, state=TrialState.FAIL)
        else:
            self._study.tell(suggested, curve[-1][1])
        return code

    def _judge(self, suggested: optuna.trial.Trial, trial: Trial) -> Callable[[], bool]:
        """A function to poll: whether the pruner ends a trial. It passes on the curve as it grows.

        The score at a step is that of the first row after it, as rows of different trials have different frames.
        """
        path = self._trainer.path(trial, metrics.FILE)
        step = self._study.get_trials()[suggested.number].last_step or 0
        size, pruned = 0, False

        def prunes() -> bool:
            nonlocal size, step, pruned
            now = os.path.getsize(path) if os.path.exists(path) else 0
            if pruned or now == size:
                return pruned
            size, before = now, step
            for frames, score in self._curve(trial):
                while step < min(STEPS, int(STEPS * frames / self._total_frames)):
                    step += 1
                    suggested.report(score, step)
            pruned = before < step < STEPS and suggested.should_prune()
            return pruned

        return prunes

    def _trial(self, suggested: optuna.trial.Trial | FrozenTrial) -> Trial:
        values = suggested.params
        texts = {name: text_of(values[name], possible) for name, possible in self._space.items() if name in values}
        return Trial(f"trial_{suggested.number}", texts)

    def _curve(self, trial: Trial) -> list[tuple[float, float]]:
        """Frames and score of each row that has one."""
        rows = ((row["env_frames"], row.get(self._metric, math.nan)) for row in self._trainer.curve(trial))
        return [(frames, score) for frames, score in rows if math.isfinite(score)]

    def results(self) -> list[dict[str, Any]]:
        """A row for each trial, finished ones first, and of these the best: settings, score, frames and state."""
        rows = map(self._row, self._study.get_trials())
        return sorted(rows, key=lambda row: (row["state"] != _FINISHED, -row.get("score", -math.inf)))

    def _row(self, found: FrozenTrial) -> dict[str, Any]:
        trial = self._trial(found)
        row = {"trial": found.number, **trial.settings, "state": _STATES[found.state]}
        for frames, score in self._curve(trial)[-1:]:
            row |= {"score": score, "frames": frames}
        return row | {key: found.user_attrs[key] for key in ("failure",) if key in found.user_attrs}

    def table(self) -> str:
        """The results for people, at most 100 columns wide; below the table why trials failed."""
        rows = self.results()
        reached: dict[str, Callable[[float], str]] = {"score": "{:.2f}".format, "frames": short}
        texts = [
            [str(row["trial"]), *(row.get(name, "") for name in self._space)]
            + [text(row[key]) if key in row else "" for key, text in reached.items()]
            + [row["state"]]
            for row in rows
        ]
        heads = ["trial", *map(_head, self._space), *reached, "state"]
        failures = (f"trial_{row['trial']}: {row['failure']}" for row in rows if "failure" in row)
        return "\n".join([table(heads, texts, numbers=reached), *failures])

    def write_results(self) -> str:
        """Writes `results.csv` and the same as JSON into the directory; returns the path of the CSV.

        Raises:
          ConfigError: they can't be written.
        """
        columns = ["trial", *self._space, "score", "frames", "state", "failure"]
        return self._trainer.write_results(columns, self.results())

    def best_command(self) -> str:
        """The command that trains with the settings of the best finished trial; empty without one."""
        best = [row for row in self.results()[:1] if row["state"] == _FINISHED]
        settings = [f"--gin_param={name}={row[name]}" for row in best for name in self._space]
        return shlex.join(["seed_rl", "train", *self._arguments, *settings]) if best else ""


def _open_study(path: str, pruner: optuna.pruners.BasePruner) -> optuna.Study:
    """The study in a journal, or a new one.

    Raises:
      ValueError: there is something else in it.
    """
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(path)),
            study_name="search",
            direction="maximize",
            pruner=pruner,
            load_if_exists=True,
        )
        study.get_trials()
    except OSError:
        raise
    except Exception as error:  # Optuna replays a journal without checks
        raise ValueError(f"its journal is damaged ({type(error).__name__}: {printable(str(error))})") from error
    return study


def _check(found: FrozenTrial, space: Space) -> None:
    """Refuses what would become settings of a run, or a score, without being one; raises ValueError."""
    scores = [*(found.values or ()), *found.intermediate_values.values()]
    if any(space.get(name) != distribution for name, distribution in found.distributions.items()):
        raise ValueError(f"trial {found.number} in its journal has other settings")
    if not all(type(score) in (int, float) for score in scores):
        raise ValueError(f"trial {found.number} in its journal has scores that are no numbers")


def _head(name: str) -> str:
    return name.rpartition(".")[2]


def _remove_torn_line(path: str) -> None:
    """Removes the part of a line that a full disk left at the end of a journal, and which would spoil the next."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
