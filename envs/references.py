"""Scores of random play and of humans, from which human-normalised scores are computed."""

import csv
import pathlib
from typing import NamedTuple


class Reference(NamedTuple):
    """Mean unclipped returns of random play and of humans in one game or level."""

    random: float
    human: float

    def normalise(self, mean_return: float) -> float:
        """The human-normalised score, 100 * (mean return - random) / (human - random), percent."""
        return 100 * (mean_return - self.random) / (self.human - self.random)


def read_references(path: pathlib.Path) -> dict[str, Reference]:
    """Read a CSV file with the columns `name,random,human`, preserving the order of rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: Reference(float(row["random"]), float(row["human"])) for row in csv.DictReader(file)}
