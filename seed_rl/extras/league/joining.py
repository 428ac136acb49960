"""Lets a run whose experiment names a league play against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seed_rl.extras.league.settings import League
from seed_rl.runs.run import Run

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly


def join(run: Run) -> None:
    """Let the opponents of a run, whose experiment may name a `League`, be its past policies."""
    if not isinstance(league := run.experiment.league, League):
        return

    def change(assembly: Assembly) -> Assembly:
        from seed_rl.extras.league.games import with_league

        return with_league(league, assembly)

    run.is_alone = "a league"
    run.changes.append(change)
