"""Human-normalised scores of DMLab-30 (IMPALA, arXiv:1802.01561): 0 is a random policy, 100 a person.

scores = {level: human_normalised(level, returns) for level, returns in returns_by_level.items()}
summary(scores).mean_capped
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from seed_rl.envs.dmlab_levels import scored_in


class Reference(NamedTuple):
    """Mean returns that a level's scores are measured by."""

    human: float
    random: float


REFERENCES = {
    "rooms_collect_good_objects_test": Reference(10, 0.073),
    "rooms_exploit_deferred_effects_test": Reference(85.65, 8.501),
    "rooms_select_nonmatching_object": Reference(65.9, 0.312),
    "rooms_watermaze": Reference(54, 4.065),
    "rooms_keys_doors_puzzle": Reference(53.8, 4.135),
    "language_select_described_object": Reference(389.5, -0.07),
    "language_select_located_object": Reference(280.7, 1.929),
    "language_execute_random_task": Reference(254.05, -5.913),
    "language_answer_quantitative_question": Reference(184.5, -0.33),
    "lasertag_one_opponent_small": Reference(12.65, -0.224),
    "lasertag_three_opponents_small": Reference(18.55, -0.214),
    "lasertag_one_opponent_large": Reference(18.6, -0.083),
    "lasertag_three_opponents_large": Reference(31.5, -0.102),
    "natlab_fixed_large_map": Reference(36.9, 2.173),
    "natlab_varying_map_regrowth": Reference(24.45, 2.989),
    "natlab_varying_map_randomized": Reference(42.35, 7.346),
    "skymaze_irreversible_path_hard": Reference(100, 0.1),
    "skymaze_irreversible_path_varied": Reference(100, 14.4),
    "psychlab_arbitrary_visuomotor_mapping": Reference(58.75, 0.163),
    "psychlab_continuous_recognition": Reference(58.3, 0.224),
    "psychlab_sequential_comparison": Reference(39.5, 0.129),
    "psychlab_visual_search": Reference(78.5, 0.085),
    "explore_object_locations_small": Reference(74.45, 3.575),
    "explore_object_locations_large": Reference(65.65, 4.673),
    "explore_obstructed_goals_small": Reference(206, 6.76),
    "explore_obstructed_goals_large": Reference(119.5, 2.61),
    "explore_goal_locations_small": Reference(267.5, 7.66),
    "explore_goal_locations_large": Reference(194.5, 3.14),
    "explore_object_rewards_few": Reference(77.7, 2.073),
    "explore_object_rewards_many": Reference(106.7, 2.438),
}
"""By the names of the levels in which agents are scored: where there is a test version, that one's."""


class Summary(NamedTuple):
    """Scores of several levels as one number each, percent."""

    mean: float
    median: float
    mean_capped: float
    """The mean of the levels' scores, each counted as 100 at the most: what results on DMLab-30 are given in."""
    num_levels: int
    """30 for a result on DMLab-30."""


def human_normalised(level: str, returns: ArrayLike) -> float:
    """100 * (mean return - random) / (human - random).

    Args:
      level: name or path of a level of DMLab-30; one to learn in is scored by the figures of its test twin.
      returns: episode returns, unclipped, one or more.

    Raises:
      ValueError: another level, or no returns.
    """
    episodes = np.asarray(returns, np.float64)
    if episodes.size == 0:
        raise ValueError(f"no returns of {level} to score")
    reference = REFERENCES[scored_in(level)]
    return float(100 * (episodes.mean() - reference.random) / (reference.human - reference.random))


def summary(scores: Mapping[str, float]) -> Summary:
    """What the scores (percent) of different levels come to.

    Raises:
      ValueError: no scores, one that isn't finite, or two of one level: of a level and its test twin.
    """
    levels = {scored_in(level) for level in scores}
    if not scores or len(levels) < len(scores):
        raise ValueError(f"expected scores of one level or more, each once, got {', '.join(sorted(scores)) or 'none'}")
    values = np.array(list(scores.values()), np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"expected finite scores, got {dict(scores)}")
    return Summary(
        float(values.mean()), float(np.median(values)), float(np.minimum(values, 100).mean()), num_levels=len(values)
    )
