"""The levels of DMLab-30, and their reference scores (IMPALA, arXiv:1802.01561)."""

import pathlib

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
_NEED_A_DATASET = ("arbitrary_visuomotor_mapping", "continuous_recognition")


def path_of(level: str) -> str:
    """The full path of a DMLab-30 level; the names of all other levels are already paths."""
    return _FOLDER + level if level in DMLAB_30 else level


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
    name = level.removeprefix(_FOLDER)
    return REFERENCES.get(TEST_TWINS.get(name, name))
