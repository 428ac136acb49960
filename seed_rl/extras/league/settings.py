"""Settings of a league: past policies of a run as opponents in its games."""

import dataclasses
from typing import Annotated

import gin

from seed_rl.settings import Count, OneOf, Settings, UnitInterval

UNIFORM, NEWEST, PRIORITIZED = "uniform", "newest", "prioritized"


@gin.configurable
@dataclasses.dataclass(frozen=True)
class League(Settings):
    """Past policies of a run, its members, as opponents in games of several players.

    In a share of the games only the home players are those of the learning agent. All others are played by a member
    that is drawn for each episode; their steps are not learned from. In the remaining games the agent plays all.
    """

    share: UnitInterval = 0.5
    """Share of the training games with members as opponents. Evaluation games all have them."""
    sets: Count = 3
    """Number of members that are ready to act at a time, of which an episode gets each with the same probability."""
    draw: Annotated[str, OneOf(UNIFORM, NEWEST, PRIORITIZED)] = UNIFORM
    """How members are drawn: all with the same probability (`uniform`), the latest ones (`newest`), or in proportion to
    (1 - score)^2, where score is the agent's mean result against the member from 0 to 1 (`prioritized`, fictitious
    self-play as in doi:10.1038/s41586-019-1724-z)."""
    every_updates: Count = 200
    """Interval between new members, learner updates. With each, one of the sets is redrawn."""
    most_members: Count = 64
    """Number of members above which every second one leaves, and the interval doubles."""
