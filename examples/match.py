"""Plays games between a run's policy and another player, and counts wins, draws and losses.

python examples/match.py runs/tic_tac_toe random
python examples/match.py runs/tic_tac_toe runs/other --games=1000
PYTHONPATH=examples python examples/match.py runs/tic_tac_toe minimax:tic_tac_toe --greedy

A player is a log directory, `random`, or `module:function`. The function takes the `EnvSpec` and a seed, and returns a
function from an `EnvOutput` with fields [B, ...] to actions [B, ...], the next ones of B players. The first player has
row 0 of each game, or more rows with --home, and the second one the others; seats change with each game.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.envs.base import EnvConfig, legal_actions, random_actions
from seed_rl.envs.elsewhere import make_elsewhere
from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.policy import experiment_of, load_policy
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput

Act = Callable[[EnvOutput], np.ndarray]


def player(name: str, spec: EnvSpec, rows: int, seed: int, greedy: bool) -> Act:
    """What a player does in a number of rows."""
    if name == "random":
        rng = np.random.default_rng(seed)
        legal = lambda output: legal_actions(spec, output.observation)  # noqa: E731
        return lambda output: random_actions(spec.action, rng, rows, legal(output))
    module, _, function = name.partition(":")
    if function:
        return getattr(importlib.import_module(module), function)(spec, seed)
    policy = load_policy(name, greedy=greedy, seed=seed)
    policy.reset(rows)
    return policy.act


class Sides:
    """Two players as one policy: `home` acts in the rows where `at_home`, bool [E], `away` in the others."""

    def __init__(self, home: Act, away: Act, at_home: np.ndarray):
        self._sides = ((home, np.flatnonzero(at_home)), (away, np.flatnonzero(~at_home)))

    def reset(self, num_envs: int) -> None:
        """Does nothing: players begin when they are made."""

    def act(self, output: EnvOutput) -> np.ndarray:
        """The actions [E, ...] of both."""
        own = lambda rows: tf.nest.map_structure(lambda tensor: tensor[rows], output)  # noqa: E731
        chosen = [act(own(rows)) for act, rows in self._sides]
        order = np.argsort(np.concatenate([rows for _, rows in self._sides]))
        return np.concatenate(chosen)[order]


def match(
    config: EnvConfig, names: tuple[str, str], games: int, parallel: int, home: int, seed: int, greedy: bool
) -> np.ndarray:
    """Plays games, `parallel` at a time; returns the mean return of the first player's rows, float64 [games]."""
    at_home = np.arange(parallel * config.players) % config.players < home
    counts = at_home.sum(), (~at_home).sum()
    with contextlib.closing(make_elsewhere(config, len(at_home))) as env:
        spec = config.spec()
        acts = [player(name, spec, rows, seed, greedy) for name, rows in zip(names, counts, strict=True)]
        sides: Any = Sides(acts[0], acts[1], at_home)
        played = play(sides, env, games * config.players, seed)
    # Rows of a game end together, and each row plays as often as the others of its game.
    return played.returns.reshape(games, config.players)[:, :home].mean(axis=1)


def main() -> None:
    """Plays the match that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="log directory, whose run also defines the game")
    parser.add_argument("second", help="log directory, `random` or `module:function`")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=20, help="games at a time; must divide --games")
    parser.add_argument("--home", type=int, default=1, help="rows of the first player in each game")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--greedy", action="store_true", help="policies don't explore")
    given = parser.parse_args()
    if given.games % given.parallel:
        parser.error(f"--games ({given.games}) must be a multiple of --parallel ({given.parallel})")
    config = experiment_of(given.first).env
    names = (given.first, given.second)
    returns = match(config, names, given.games, given.parallel, given.home, given.seed, given.greedy)
    won, lost = np.mean(returns > 0), np.mean(returns < 0)
    print(
        f"{given.first} against {given.second}: {given.games} games, {won:.1%} won, {1 - won - lost:.1%} drawn, ",
        end="",
    )
    print(f"{lost:.1%} lost, mean return {returns.mean():.3f}")


if __name__ == "__main__":
    main()
