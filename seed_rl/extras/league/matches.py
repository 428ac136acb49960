"""Matches and tournaments between policies in games of several players."""

import contextlib
import dataclasses
import importlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from seed_rl.envs.base import CannotBuild, EnvConfig
from seed_rl.envs.elsewhere import make_elsewhere
from seed_rl.envs.vector.steps import Act, random_policy
from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.policy import NoPolicy, Policy, load_policy
from seed_rl.extras.league.act_step import rows_of
from seed_rl.foreign import description_of
from seed_rl.reporting.text import columns
from seed_rl.specs import EnvSpec
from seed_rl.system.signals import Stop
from seed_rl.types import EnvOutput

RANDOM = "random"  # name of the player that chooses uniformly among the legal actions
_PARALLEL = 32  # games at a time


class Match(NamedTuple):
    """The result of two players' games, from the point of view of the first."""

    first: str
    second: str
    wins: int
    draws: int
    losses: int

    @property
    def score(self) -> float:
        """Mean result, where a win is 1 and a draw 0.5."""
        return (self.wins + 0.5 * self.draws) / (self.wins + self.draws + self.losses)


def new_player(name: str, spec: EnvSpec, rows: int, seed: int = 0, greedy: bool = False) -> Act:
    """Build what a player does in a number of rows, or raise NoPolicy.

    Its name is `random`; `module:function`, a function of the `EnvSpec` and a seed that returns an `Act`; or the policy
    of a run, `logdir` or `logdir@checkpoint`, or a pretrained one.
    """
    if name == RANDOM:
        return random_policy(spec, seed)
    module, _, function = name.partition(":")
    if function.isidentifier() and not os.path.exists(name.partition("@")[0]):
        try:
            return cast(Act, getattr(importlib.import_module(module), function)(spec, seed))
        except Exception as error:
            raise NoPolicy(f"the player {name} can't be made: {description_of(error)}") from error
    logdir, _, checkpoint = name.partition("@")
    policy = load_policy(logdir, checkpoint or None, greedy, seed)
    needed = dict(policy.env_spec.observation_tensors())  # fewer if the run has `critic_keys`
    read = {name: tensor for name, tensor in spec.observation_tensors() if name in needed}
    if policy.env_spec not in (spec, dataclasses.replace(spec, observation=read)):
        raise NoPolicy(f"{name} plays with {policy.env_spec}; here are {spec}")
    policy.reset(rows)
    return policy.act


class _Sides:
    """Two players as one policy: `home` acts in the rows where `at_home`, bool [E], `away` in the others."""

    def __init__(self, home: Act, away: Act, at_home: np.ndarray):
        self._sides = ((home, np.flatnonzero(at_home)), (away, np.flatnonzero(~at_home)))

    def reset(self, num_envs: int) -> None:
        """Do nothing: players begin when they are made."""

    def act(self, output: EnvOutput) -> np.ndarray:
        chosen = [act(rows_of(output, rows)) for act, rows in self._sides]
        return np.concatenate(chosen)[np.argsort(np.concatenate([rows for _, rows in self._sides]))]


def match(
    config: EnvConfig, names: tuple[str, str], games: int, seed: int = 1, greedy: bool = False, stop: Stop | None = None
) -> Match:
    """Play games in which the first player has the home players' rows, and the second one the others.

    A game is won by the side with the higher mean return. Players are named as for `new_player`; `greedy` and `stop`
    are those of `evaluate_run`. Raises NoPolicy, and CannotBuild if environments can't be built or have no opponents.
    """
    if config.players <= config.home_players:
        raise CannotBuild(f"{config.title} has no opponents")
    parallel = min(_PARALLEL, games)
    at_home = np.arange(parallel * config.players) % config.players < config.home_players
    with contextlib.closing(make_elsewhere(config, len(at_home))) as env:
        home, away = (
            new_player(name, config.spec(), int(rows.sum()), seed + number, greedy)
            for number, (name, rows) in enumerate(zip(names, (at_home, ~at_home), strict=True))
        )
        played = play(cast(Policy, _Sides(home, away, at_home)), env, games * config.players, seed, stop=stop)
    # Rows of a game end together, and each row plays as often as the others of its game.
    home_returns, others = np.split(played.returns.reshape(-1, config.players), [config.home_players], axis=1)
    ahead = home_returns.mean(axis=1) - others.mean(axis=1)
    wins, losses = int(np.sum(ahead > 0)), int(np.sum(ahead < 0))
    return Match(*names, wins, len(ahead) - wins - losses, losses)


def ratings(matches: Sequence[Match]) -> list[Any]:
    """Rate players by all games of their matches, the best first, by openskill's Plackett-Luce model (a TrueSkill).

    A rating has a `name`, the skill `mu`, 25 at first, and its standard deviation `sigma`.
    """
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    found = {name: model.rating(name=name) for each in matches for name in (each.first, each.second)}
    results = []
    for each in matches:
        for count, ranks in ((each.wins, [1, 2]), (each.draws, [1, 1]), (each.losses, [2, 1])):
            results += [(each.first, each.second, ranks)] * count
    for number in np.random.default_rng(0).permutation(len(results)):  # ratings follow the order of games
        first, second, ranks = results[number]
        [found[first]], [found[second]] = model.rate([[found[first]], [found[second]]], ranks=ranks)
    return sorted(found.values(), key=lambda rating: -rating.mu)


def text(matches: Sequence[Match]) -> str:
    """Format the ratings, and each player's scores against the others in the same order, as a table."""
    rated = ratings(matches)
    scores = {(each.first, each.second): each.score for each in matches}
    scores |= {(each.second, each.first): 1 - each.score for each in matches}
    rows = []
    for number, own in enumerate(rated, 1):
        cells = [scores.get((own.name, other.name)) for other in rated]
        won = ["" if cell is None else f"{100 * cell:.1f}%" for cell in cells]
        rows.append([f"{number}.", own.name, f"{own.mu:5.1f} +- {own.sigma:4.1f}", *won])
    return columns(["", "player", "skill", *(row[0] for row in rows)], rows)
