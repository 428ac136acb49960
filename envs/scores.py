"""Human-normalised scores: published returns of humans and of random play, kept as tables beside the suites."""

from __future__ import annotations

import csv
import pathlib
from typing import NamedTuple


class Reference(NamedTuple):
    """Mean returns of unclipped rewards in one game or level."""

    random: float
    human: float

    def normalise(self, mean_return: float) -> float:
        """100 * (mean return - random) / (human - random), percent."""
        return 100 * (mean_return - self.random) / (self.human - self.random)


def read_references(path: pathlib.Path) -> dict[str, Reference]:
    """The references of a CSV file with the columns `name,random,human`, in the order of its rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: Reference(float(row["random"]), float(row["human"])) for row in csv.DictReader(file)}
