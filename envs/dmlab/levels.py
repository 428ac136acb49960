"""The levels of DMLab-30, and summaries of their human-normalised scores (IMPALA, arXiv:1802.01561).

scores = {name: DMLab(name, held_out=True).human_normalised(mean) for name, mean in mean_returns.items()}
summary(scores).mean_capped
"""

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from seed_rl.envs.references import Reference, read_references

_FOLDER = "contributed/dmlab30/"

REFERENCES = read_references(pathlib.Path(__file__).with_name("scores.csv"))
"""Mean returns of humans and of random play, keyed by the 30 levels that agents are scored on."""

TEST_TWINS = {
    "rooms_collect_good_objects_train": "rooms_collect_good_objects_test",
    "rooms_exploit_deferred_effects_train": "rooms_exploit_deferred_effects_test",
}
"""Levels that have separate versions for training and for scoring; all others have one version for both."""

DMLAB_30 = tuple(sorted({*REFERENCES, *TEST_TWINS}))
"""All levels, for training and for scoring."""
_FAMILIES = tuple(sorted({name.partition("_")[0] + "_" for name in DMLAB_30}))
_NEED_A_DATASET = ("arbitrary_visuomotor_mapping", "continuous_recognition")


def path_of(level: str) -> str:
    """The full path of a DMLab-30 level; the names of all other levels are already paths.

    Raises:
      ValueError: the name is empty, or looks like a DMLab-30 level but isn't one.
    """
    if not level:
        raise ValueError("DMLab.level: a level must have a name")
    if level in DMLAB_30:
        return _FOLDER + level
    if "/" not in level and level.startswith(_FAMILIES):
        raise ValueError(f"DMLab.level: DMLab-30 has no level {level!r}; there are {', '.join(DMLAB_30)}")
    return level


def has_instructions(level: str) -> bool:
    """Whether a level, given by name or path, has verbal instructions."""
    return level.rpartition("/")[2].startswith("language_")


def is_held_out(level: str) -> bool:
    """Whether a level, given by name or path, is a DMLab-30 level for scoring only."""
    return level.removeprefix(_FOLDER) in TEST_TWINS.values()


def needs_dataset(level: str) -> bool:
    """Whether a level, given by name or path, shows pictures that don't come with DeepMind Lab."""
    return level.rpartition("/")[2].removeprefix("psychlab_") in _NEED_A_DATASET


def reference_of(level: str) -> Reference | None:
    """The reference scores of a level, given by name or path, or of its test twin; None outside of DMLab-30."""
    return REFERENCES.get(_scored_in(level))


class Summary(NamedTuple):
    """Statistics of the scores of several levels, in percent."""

    mean: float
    median: float
    mean_capped: float
    """The mean of the scores, each capped at 100: the figure usually reported for DMLab-30."""
    num_levels: int
    """Number of levels, 30 for a complete DMLab-30 result."""


def summary(scores: Mapping[str, float | None]) -> Summary:
    """Summarises the scores (percent) of different DMLab-30 levels.

    Raises:
      ValueError: there are no scores, a level is unknown or occurs twice (as itself and its test twin), or a score is
        not finite.
    """
    levels = {_scored_in(level) for level in scores}
    if not levels or len(levels) < len(scores) or not levels <= set(REFERENCES):
        given = ", ".join(sorted(scores)) or "none"
        raise ValueError(f"expected scores of one or more DMLab-30 levels, each once, got {given}")
    values = np.array(list(scores.values()), np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"expected finite scores, got {dict(scores)}")
    return Summary(
        float(values.mean()), float(np.median(values)), float(np.minimum(values, 100).mean()), num_levels=len(values)
    )


def _scored_in(level: str) -> str:
    """The name of the level whose reference scores apply."""
    name = level.removeprefix(_FOLDER)
    return TEST_TWINS.get(name, name)
