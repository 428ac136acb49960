"""What sweeps and searches have in common: a directory, and tables of results."""

import abc
import csv
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from seed_rl.experiment import ConfigError
from seed_rl.reporting.text import columns
from seed_rl.system.files import explaining


class Column(NamedTuple):
    """A column in a table of results."""

    head: str
    text: Callable[[Any], str] | None = None
    """Formats a number; None for a column of texts."""


class Study(abc.ABC):
    """Runs in subdirectories of one directory, and their results."""

    def __init__(self, directory: str):
        """Create the parent of the log directories if it is missing; raise ConfigError if that fails."""
        self.directory = directory
        with explaining(ConfigError, f"--logdir {directory} can't be used"):
            os.makedirs(directory, exist_ok=True)

    @abc.abstractmethod
    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Train what is left, as `runs.train_all` does; raise ConfigError if the directory can't be used."""

    @abc.abstractmethod
    def results(self) -> list[dict[str, Any]]:
        """Return one row per run, the best first. The key `failure` has the reason for a failure."""

    @abc.abstractmethod
    def columns(self) -> Mapping[str, Column | None]:
        """Return the columns of `results` by key, starting with the run; None for those left out of the table."""

    def table(self) -> str:
        """Format the results, without columns of numbers that no run has, and the reasons for failures."""
        rows = self.results()
        shown = {
            key: column
            for key, column in self.columns().items()
            if column is not None and (column.text is None or any(key in row for row in rows))
        }
        cells = [
            [(column.text or str)(row[key]) if key in row else "" for key, column in shown.items()] for row in rows
        ]
        name = next(iter(shown))
        failures = [f"{name} {row[name]}: {row['failure']}" for row in rows if "failure" in row]
        return "\n".join([columns([column.head for column in shown.values()], cells), *failures])

    def write_results(self) -> str:
        """Write `results.csv` and return its path, or raise ConfigError."""
        path, rows = os.path.join(self.directory, "results.csv"), self.results()
        with (
            explaining(ConfigError, f"the results in {self.directory} can't be written"),
            open(path, "w", encoding="utf-8", newline="") as file,
        ):
            table = csv.DictWriter(file, [*self.columns()], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        return path
