"""Reads the metrics of recorded runs and groups the runs by configuration."""

import contextlib
import csv
import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, Self

import numpy as np

from seed_rl.experiment import ConfigError, saved_config
from seed_rl.foreign import printable, short_repr
from seed_rl.reporting import metrics
from seed_rl.system.files import explaining, files_in
from seed_rl.weights.policy_sources import opening

_log = logging.getLogger(__name__)

_MAX_NAME = 100  # characters per setting
_MAX_DIFFERENCES = 3  # settings in a label; runs that differ in more are labelled by directory


class RecordedRun(NamedTuple):
    """The metrics and settings of one run."""

    place: str
    """Log directory or CSV file of the run."""
    rows: list[dict[str, float]]
    settings: dict[str, Any] | None
    """Configuration of the run without its seed; None if unknown."""
    series: str = ""
    """Path of a CSV file without its extension, or up to `seed=N`, which all seeds share; "" for a log directory."""

    def points(self, column: str, metric: str) -> np.ndarray:
        """Return the finite pairs [n, 2] of values in a column and a metric."""
        values = [(row[column], row[metric]) for row in self.rows if column in row and metric in row]
        points = np.array(values, float).reshape(-1, 2)
        return points[np.isfinite(points).all(axis=1)]

    def apart_from_environment(self) -> tuple[str, Self]:
        """Return the settings of the environment as JSON text, and the run without them."""
        env = {name: value for name, value in (self.settings or {}).items() if name.startswith("env.")}
        others = {name: value for name, value in (self.settings or {}).items() if name not in env}
        return json.dumps(env, sort_keys=True), self._replace(settings=others)

    @property
    def reward_threshold(self) -> float | None:
        """Mean return from which the run's task counts as solved; None if there is none, or it is not known here."""
        with contextlib.suppress(ConfigError):
            return saved_config.rebuild(self.settings or {}, self.place).env.reward_threshold
        return None

    def last_score(self) -> float:
        """Return the last return (evaluation if available) in percent of a human, or raise ConfigError if unknown."""
        if self.series:
            raise ConfigError("CSV files can't be normalised: expected log directories, which name the environment")
        names = ("eval/episode_return", "episode_return")
        last = next(row[name] for name in names for row in reversed(self.rows) if name in row)
        score = saved_config.rebuild(self.settings or {}, self.place).env.human_normalised(last)
        if score is None:
            raise ConfigError(f"{self.place} can't be normalised: its environment has no human reference score")
        return score


def runs_with_returns(places: Sequence[str]) -> list[RecordedRun]:
    """Read the runs in log directories, directories that contain some, or CSV files, except those without returns."""
    runs = [*{os.path.realpath(run.place): run for place in places for run in _runs(place)}.values()]
    found = [run for run in runs if any("episode_return" in row for row in run.rows)]
    if not found:
        raise ConfigError(f"no episode returns yet in {', '.join(run.place for run in runs)}")
    for run in [run for run in runs if run not in found]:
        _log.warning("%s is skipped: it has no episode returns yet", run.place)
    return found


def group_runs(runs: Sequence[RecordedRun]) -> list[tuple[str, list[RecordedRun]]]:
    """Group runs that differ only in their seed, and pair each group with a unique label."""
    groups: dict[str, list[RecordedRun]] = {}
    for index, run in enumerate(runs):
        key = run.series or f"run {index}" if run.settings is None else json.dumps(run.settings, sort_keys=True)
        groups.setdefault(key, []).append(run)
    labelled = zip(_names(list(groups.values())), groups.values(), strict=True)
    return [(f"{name} ({len(group)} seeds)" if len(group) > 1 else name, group) for name, group in labelled]


def _names(groups: Sequence[Sequence[RecordedRun]]) -> list[str]:
    """Label groups by the settings in which they differ if these are few, otherwise by directory or CSV file."""
    known = [group[0].settings for group in groups if group[0].settings is not None]
    if len(groups) == len(known) > 1:
        everything = dict.fromkeys(name for one in known for name in one)
        differing = [name for name in everything if any(one.get(name) != known[0].get(name) for one in known)]
        names = [", ".join(_setting(name, one.get(name)) for name in differing) for one in known]
        if len(differing) <= _MAX_DIFFERENCES and len(set(names)) == len(names):
            return names
    places = [os.path.abspath(group[0].series or _directory([run.place for run in group])) for group in groups]
    above = os.path.commonpath(list(map(os.path.dirname, places)))
    return [os.path.relpath(place, above) for place in places]


def _setting(name: str, value: Any) -> str:
    short = name.removesuffix(saved_config.CHOSEN).rpartition(".")[2]
    value = f"{value:g}" if isinstance(value, float) else printable(str(value)[:_MAX_NAME])
    return value if short in ("game", "level", "scenario", "id", "kind") else f"{short} = {value}"


def _directory(places: list[str]) -> str:
    """Return the directory of a run, or what those of several have in common, without the part that numbers them."""
    common = os.path.commonprefix(places)  # noqa: RUF071 (names, not only directories, share a prefix)
    return common if len(set(places)) == 1 else re.sub(r"[-_. /]*(seed=?)?[0-9]*$", "", common) or places[0]


def _runs(place: str) -> list[RecordedRun]:
    """Find the runs in a place, at any depth."""
    if os.path.isfile(place):
        with (
            explaining(ConfigError, f"{place} can't be read", OSError, ValueError, csv.Error),
            open(place, encoding="utf-8-sig", newline="") as file,
        ):
            rows = [_numbers(row) for row in csv.DictReader(file, restval="")]
        stem = os.path.splitext(os.path.join(os.curdir, place))[0]
        series = re.sub(r"[-_. ]*seed=\d+", "", stem)
        return [RecordedRun(place, rows, None, series.rstrip("_-. "))]
    with opening(place, "") as directory:
        files = files_in(directory)
        found = {PurePath(file).parent for file in files if PurePath(file).name == metrics.FILE}
        if not found:
            raise ConfigError(f"{place} neither is nor contains the log directory of a run")
        outermost = sorted(run for run in found if found.isdisjoint(run.parents))  # those of other learners are nested
        runs = [_run(os.path.join(directory, *run.parts), str(run / saved_config.SAVED) in files) for run in outermost]
    return [run._replace(place=run.place.replace(directory, place, 1)) for run in runs]


def _run(directory: str, has_settings: bool) -> RecordedRun:
    with explaining(ConfigError, f"{directory} can't be read", OSError, ValueError):
        rows = metrics.read(directory)
    settings = saved_config.saved_settings(directory) if has_settings else None
    return RecordedRun(directory, rows, settings and {name: v for name, v in settings.items() if name != "seed"})


def _numbers(row: dict[str | None, Any]) -> dict[str, float]:
    """Parse a CSV row, skipping empty fields; raise ValueError for a non-number or a field without a column."""
    try:
        return {str(name): float(text) for name, text in row.items() if text}
    except (TypeError, ValueError):
        raise ValueError(f"expected a number in each column, got {short_repr([*row.values()])}") from None
