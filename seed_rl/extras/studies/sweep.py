"""Runs of one experiment with different settings and seeds, sequential or in parallel.

Each run is a `seed_rl train` process whose log directory is inside the sweep's. A restarted sweep skips finished runs
and continues the others from their checkpoints.
"""

import abc
import contextlib
import csv
import hashlib
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seed_rl.experiment import ConfigError
from seed_rl.extras.studies.runs import Run, Trial, train_all
from seed_rl.foreign import short_repr
from seed_rl.reporting.metrics import settled_return
from seed_rl.reporting.text import columns, duration, short
from seed_rl.settings import whole_number
from seed_rl.system.files import explaining, locking

_MOST_RUNS = 10_000
_MAX_NAME = 120  # characters; file systems limit names to 255 bytes
_REACHED = {
    "env_frames": "frames",
    "hours": "time",
    "last_return": "return",
    "best_return": "best",
    "last_evaluation": "eval",
}


class Study(abc.ABC):
    """Runs in subdirectories of one directory, and their results."""

    def __init__(self, directory: str):
        """Create the parent of the log directories if it is missing; raise ConfigError if that fails."""
        self.directory = directory
        with explaining(ConfigError, f"--logdir {directory} can't be used"):
            os.makedirs(directory, exist_ok=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other sweeps and searches out of the directory, or raise ConfigError if one is running there."""
        with contextlib.ExitStack() as cleanup:
            with explaining(ConfigError, f"--logdir {self.directory} can't be used"):
                try:
                    cleanup.enter_context(locking(os.path.join(self.directory, "lock")))
                except BlockingIOError:
                    raise ConfigError(f"another sweep is running in {self.directory}") from None
            yield

    @abc.abstractmethod
    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Train what is left, as `runs.train_all` does; raise ConfigError if the directory can't be used."""

    @abc.abstractmethod
    def results(self) -> list[dict[str, Any]]:
        """Return one row per run, the best first. The key `failure` has the reason for a failure."""

    @abc.abstractmethod
    def heads(self) -> Mapping[str, str | None]:
        """Return the heads of the columns of `results`, starting with the run; None for those left out of the table."""

    def table(self) -> str:
        """Format the results, without columns that no run has, and the reasons for failures."""
        rows, heads = self.results(), self.heads()
        used = {key for row in rows for key in row} or set(heads)
        shown = {key: head for key, head in heads.items() if head and key in used}
        cells = [[_text(key, row[key]) if key in row else "" for key in shown] for row in rows]
        name = next(iter(heads))
        failures = [f"{name} {row[name]}: {row['failure']}" for row in rows if "failure" in row]
        return "\n".join([columns([*shown.values()], cells), *failures])

    def write_results(self) -> str:
        """Write `results.csv` and return its path, or raise ConfigError."""
        path, rows = os.path.join(self.directory, "results.csv"), self.results()
        what = f"the results in {self.directory} can't be written"
        with explaining(ConfigError, what), open(path, "w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, [*self.heads()], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        return path


def _text(key: str, value: Any) -> str:
    if key == "hours":
        return duration(3600 * value)
    if key in ("env_frames", "frames"):
        return short(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def seeds_of(texts: Sequence[str]) -> list[int]:
    """Parse `--seeds`, or raise a ConfigError: one number n means seeds 1 to n, several are the seeds themselves."""
    with explaining(ConfigError, f"--seeds must be whole numbers, got {short_repr(','.join(texts))}", ValueError):
        given = [whole_number(text) for text in texts]
    if len(given) < 2 and not 1 <= sum(given) <= _MOST_RUNS:
        raise ConfigError(f"--seeds must be 1 to {_MOST_RUNS:,} runs, or a list of seeds, got {sum(given)}")
    return given if len(given) > 1 else list(range(1, given[0] + 1))


def trials(grid: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """Build a trial for every combination of seeds and values, such as `VTrace.entropy_cost=0.01,0.001`, just once."""
    values: dict[str, list[str]] = {}
    for binding in grid:
        name, _, text = binding.partition("=")
        name, choices = name.strip(), split_values(text)
        if not name or not all(choices):
            raise ConfigError(f"expected NAME=VALUE,VALUE,... such as VTrace.entropy_cost=0.01,0.001, got {binding!r}")
        if name in values:
            raise ConfigError(f"each setting may be given once, got {name} twice")
        values[name] = choices
    values["Experiment.seed"] = [str(seed) for seed in seeds]
    combinations = itertools.product(*map(dict.fromkeys, values.values()))
    return [_trial(dict(zip(values, chosen, strict=True))) for chosen in combinations]


def _trial(settings: dict[str, str]) -> Trial:
    name = "_".join(f"{name.rpartition('.')[2]}={value}" for name, value in settings.items())
    plain = re.sub(r"[^\w=.+-]+", "-", name)
    if plain != name or len(plain) > _MAX_NAME:  # keeps the names of different trials distinct
        plain = f"{plain[:_MAX_NAME]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return Trial(plain, settings)


def split_values(text: str) -> list[str]:
    """Split a text at commas outside of brackets and quotes, and strip the parts."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and _is_open(parts[-1]):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return [part.strip() for part in parts]


def _is_open(text: str) -> bool:
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    unclosed = [a for a, b in ("()", "[]", "{}") if unquoted.count(a) > unquoted.count(b)]
    return bool(unclosed or re.search("['\"]", unquoted))


class Sweep(Study):
    """Trains a list of trials."""

    def __init__(self, wanted: Sequence[Trial], arguments: Sequence[str], directory: str, parallel: int):
        """Train the `wanted` trials in this order, `parallel` at a time; for the rest see `runs.Run`."""
        super().__init__(directory)
        self._runs, self._parallel = [Run(trial, arguments, directory) for trial in wanted], parallel
        for n, run in enumerate(self._runs, 1):
            run.title = f"{run.trial.name} ({n} of {len(wanted)})"

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        with self.alone():
            waiting = [run for run in self._runs if not run.is_finished()]
            say(f"{len(waiting)} of {len(self._runs)} runs left, {self._parallel} in parallel, in {self.directory}")
            return train_all(waiting, stopped, say, self._parallel)

    def results(self) -> list[dict[str, Any]]:
        """Return one row per trial with settings, state, frames and returns; the best last return first."""
        return sorted(map(_row, self._runs), key=lambda row: -row.get("last_return", -math.inf))

    def heads(self) -> dict[str, str | None]:
        """Return the heads of the columns of `results`; the table omits settings, which are part of the runs' names."""
        settings = dict.fromkeys(name for run in self._runs for name in run.trial.settings)
        return {"run": "run", **settings, "state": "state", **_REACHED, "failure": None}


def _row(run: Run) -> dict[str, Any]:
    state = "waiting" if not os.path.isdir(run.logdir) else "finished" if run.is_finished() else "unfinished"
    row = {"run": run.trial.name, **run.trial.settings, "state": state, **_reached(run.rows())}
    return row | ({"state": "failed", "failure": run.failure} if run.failure else {})


def _reached(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    if not rows:
        return {}
    reached = {"env_frames": rows[-1]["env_frames"]}
    if math.isfinite(seconds := rows[-1].get("seconds", math.nan)):
        reached["hours"] = seconds / 3600
    returns = [row["episode_return"] for row in rows if "episode_return" in row]
    evaluations = [row["eval/episode_return"] for row in rows if "eval/episode_return" in row]
    if returns:  # the first means are of short episodes
        best = max(settled_return(row, "episode_return", row.get("environments", 0.0)) for row in rows)
        reached |= {"last_return": returns[-1], "best_return": best if math.isfinite(best) else returns[-1]}
    return reached | ({"last_evaluation": evaluations[-1]} if evaluations else {})
