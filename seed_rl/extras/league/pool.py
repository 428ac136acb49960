"""The members of a league: past policies of a run, and the agent's results against them."""

import collections
import contextlib
import glob
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.errors import Failure
from seed_rl.extras.league.act_step import LeagueActStep
from seed_rl.extras.league.settings import NEWEST, PRIORITIZED, League
from seed_rl.foreign import short_repr
from seed_rl.learner.progress import Counters
from seed_rl.system.files import Outage, complete_or_absent, explaining
from seed_rl.weights import checkpoints

_log = logging.getLogger(__name__)

_RECENT = 200  # games, in the reported score


class Pool:
    """Members by the number of learner updates behind them, as checkpoints `member-<updates>.npz` of the agent.

    `results.csv` beside them has a row for each member: updates, games, and the agent's mean result against it, where 1
    is a win, 0.5 a draw and 0 a loss.
    """

    def __init__(self, directory: str, settings: League):
        os.makedirs(directory, exist_ok=True)
        self._directory, self._settings = directory, settings
        self._results: dict[int, tuple[int, float]] = {}  # by member: games, and the sum of their results
        self._recent: collections.deque[float] = collections.deque(maxlen=_RECENT)
        self._every = settings.every_updates
        self._removed: list[int] = []  # left at the last thinning; older checkpoints still refer to them
        self._no_members = Outage("members of the league", "the league continues with those there are", _log)

    @property
    def members(self) -> list[int]:
        return sorted(self._results)

    def gauges(self) -> dict[str, float]:
        """Return the number of members and the agent's mean result in the latest games against them."""
        score = {"league/score": float(np.mean(self._recent))} if self._recent else {}
        return {"league/members": len(self._results), **score}

    def get_state(self) -> dict[str, Any]:
        """Return interval, members and results for `set_state`, as JSON values; `results.csv` will have the same."""
        with self._no_members.tolerating():
            self._write_results()
        return {"every_updates": self._every, "results": [[member, *own] for member, own in self._results.items()]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take a state, without members whose files are gone, or raise a KeyError, TypeError or ValueError."""
        every = int(state["every_updates"])
        results = {int(member): (int(games), float(total)) for member, games, total in state["results"]}
        if every < 1 or not all(member >= 0 and 0 <= total <= games for member, (games, total) in results.items()):
            raise ValueError(f"expected an interval, members and results, got {short_repr(state)}")
        self._every = every
        self._results = {member: own for member, own in results.items() if os.path.exists(self.path(member))}
        if gone := sorted(results.keys() - self._results.keys()):
            _log.warning("members %s of the league are missing in %s", gone, self._directory)
        self._remove_others()

    def path(self, member: int) -> str:
        """Return the path of a member's checkpoint."""
        return os.path.join(self._directory, f"member-{member:012d}.npz")

    def refresh(
        self, counters: Counters, weights: Mapping[str, Any], acting: Sequence[LeagueActStep], seed: int
    ) -> None:
        """Take the results of all games; if it is time, add a member and redraw one of the sets of weights.

        `weights` are the Keras variables of the learner's agent by name. Raises a Failure if the first member can't be
        written.
        """
        for member, result in (each for one in acting for each in one.take_results()):
            self._recent.append(result)
            if member in self._results:
                games, total = self._results[member]
                self._results[member] = games + 1, total + result
        updates = counters.learner_updates
        adds = updates % self._every == 0
        if not self._results:
            self._remove_others()  # of a start that was killed before its first checkpoint
            self._add_first(counters, weights)
        elif adds:
            with self._no_members.tolerating():
                self._add(counters, weights)
        number = updates // self._every % self._settings.sets
        random = np.random.default_rng([seed, updates])
        for one in acting:
            for each in range(self._settings.sets) if one.is_empty else [number] * adds:
                one.load(each, *self._drawn(random, counters, weights))

    def _drawn(
        self, random: np.random.Generator, counters: Counters, weights: Mapping[str, Any]
    ) -> tuple[int, list[np.ndarray]]:
        """Draw a member and read its weights. One that can't be read leaves, and of an empty league it is the agent."""
        while self._results:
            path = self.path(member := self._draw(random))
            try:
                arrays, _ = checkpoints.load(path)
                checkpoints.check(weights, arrays, path)
                return member, [arrays[name] for name in weights]
            except checkpoints.CheckpointError as error:
                _log.warning("member %d leaves the league: %s", member, error)
                del self._results[member]
        return counters.learner_updates, self._add_first(counters, weights)

    def _add_first(self, counters: Counters, weights: Mapping[str, Any]) -> list[np.ndarray]:
        with explaining(Failure, f"the league in {self._directory} has no member, and none can be written"):
            return self._add(counters, weights)

    def _add(self, counters: Counters, weights: Mapping[str, Any]) -> list[np.ndarray]:
        """Write a new member and the results so far, thin the pool out if it is full, and return the weights."""
        arrays = {name: np.asarray(variable.numpy()) for name, variable in weights.items()}
        updates = counters.learner_updates
        state = {"counters": {"learner_updates": updates, "env_frames": counters.env_frames}}
        checkpoints.write(self.path(updates), arrays, state)
        self._results.setdefault(updates, (0, 0.0))
        if len(self._results) > self._settings.most_members:
            for member in self._removed:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self.path(member))
            self._every *= 2
            self._removed = [member for member in self.members[1:-1] if member % self._every]
            for member in self._removed:
                del self._results[member]
        self._write_results()
        return [*arrays.values()]

    def _write_results(self) -> None:
        results = sorted(self._results.items())
        lines = [f"{member},{games},{round(total / games, 4) if games else ''}\n" for member, (games, total) in results]
        with complete_or_absent(os.path.join(self._directory, "results.csv")) as file:
            file.write("".join(["updates,games,score\n", *lines]).encode())

    def _remove_others(self) -> None:
        """Remove the checkpoints of policies that are not members."""
        for path in glob.glob(os.path.join(glob.escape(self._directory), "member-*.npz")):
            if path not in map(self.path, self._results):
                os.remove(path)

    def _draw(self, random: np.random.Generator) -> int:
        members, chances = self.members, np.ones(len(self._results))
        if self._settings.draw == NEWEST:
            chances[: -self._settings.sets] = 0
        elif self._settings.draw == PRIORITIZED:  # a draw more than was played keeps a member without games likely
            games, totals = np.array([self._results[member] for member in members]).T
            chances = (1 - (totals + 0.5) / (games + 1)) ** 2
        return int(random.choice(members, p=chances / chances.sum()))
