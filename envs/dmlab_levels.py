"""The levels of DMLab-30 (IMPALA, arXiv:1802.01561, appendix) and where DeepMind Lab keeps them."""

from __future__ import annotations

_FOLDER = "contributed/dmlab30/"

TEST_TWINS = {
    "rooms_collect_good_objects_train": "rooms_collect_good_objects_test",
    "rooms_exploit_deferred_effects_train": "rooms_exploit_deferred_effects_test",
}
"""Levels that are learned in one version and scored in another; the rest have one for both."""

DMLAB30 = {
    name: _FOLDER + name
    for name in (
        "rooms_collect_good_objects_train",
        "rooms_exploit_deferred_effects_train",
        "rooms_select_nonmatching_object",
        "rooms_watermaze",
        "rooms_keys_doors_puzzle",
        "language_select_described_object",
        "language_select_located_object",
        "language_execute_random_task",
        "language_answer_quantitative_question",
        "lasertag_one_opponent_small",
        "lasertag_three_opponents_small",
        "lasertag_one_opponent_large",
        "lasertag_three_opponents_large",
        "natlab_fixed_large_map",
        "natlab_varying_map_regrowth",
        "natlab_varying_map_randomized",
        "skymaze_irreversible_path_hard",
        "skymaze_irreversible_path_varied",
        "psychlab_arbitrary_visuomotor_mapping",
        "psychlab_continuous_recognition",
        "psychlab_sequential_comparison",
        "psychlab_visual_search",
        "explore_object_locations_small",
        "explore_object_locations_large",
        "explore_obstructed_goals_small",
        "explore_obstructed_goals_large",
        "explore_goal_locations_small",
        "explore_goal_locations_large",
        "explore_object_rewards_few",
        "explore_object_rewards_many",
    )
}
"""Full path of each level by its name, in the order in which they are usually listed; those that agents learn in."""

_KNOWN = {**DMLAB30, **{name: _FOLDER + name for name in TEST_TWINS.values()}}
_FAMILIES = tuple(sorted({name.partition("_")[0] + "_" for name in DMLAB30}))
_NEED_A_DATASET = ("psychlab_arbitrary_visuomotor_mapping", "psychlab_continuous_recognition")


def path_of(level: str) -> str:
    """The full path of a level of DMLab-30; that of another level is its name.

    Raises:
      ValueError: the name begins like those of DMLab-30 and is none of them.
    """
    if level in _KNOWN:
        return _KNOWN[level]
    if not level:
        raise ValueError("a level must have a name")
    if "/" not in level and level.startswith(_FAMILIES):
        raise ValueError(f"DMLab-30 has no level {level!r}; there are {', '.join(sorted(_KNOWN))}")
    return level


def scored_in(level: str) -> str:
    """The name of the DMLab-30 level that agents which learned in `level`, a name or a path, are scored in.

    Raises:
      ValueError: not a level of DMLab-30.
    """
    if not is_scored(level):
        raise ValueError(f"{level!r} is no level of DMLab-30; there are {', '.join(sorted(_KNOWN))}")
    name = level.removeprefix(_FOLDER)
    return TEST_TWINS.get(name, name)


def is_scored(level: str) -> bool:
    """Whether a level, a name or a path, is of DMLab-30."""
    return level.removeprefix(_FOLDER) in _KNOWN


def needs_dataset(level: str) -> bool:
    """Whether a level, a name or a path, shows pictures that don't come with DeepMind Lab."""
    return level.rpartition("/")[2] in (*_NEED_A_DATASET, *(name.removeprefix("psychlab_") for name in _NEED_A_DATASET))
