"""A perfect player of PettingZoo's tic-tac-toe, for `match.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from seed_rl.envs.base import legal_actions
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def tic_tac_toe(spec: EnvSpec, seed: int) -> Callable[[EnvOutput], np.ndarray]:
    """Chooses at random among the best moves."""
    rng = np.random.default_rng(seed)

    def act(output: EnvOutput) -> np.ndarray:
        boards, turns = output.observation["observation"], output.observation["turn"]
        moves = legal_actions(spec, output.observation).argmax(axis=1).astype(np.int32)
        for row in np.flatnonzero(turns[:, 0]):
            own, other = (frozenset(np.flatnonzero(boards[row, ..., side])) for side in (0, 1))
            values = {move: -value(other, own | {move}) for move in range(9) if move not in own | other}
            moves[row] = rng.choice([move for move in values if values[move] == max(values.values())])
        return moves

    return act


@functools.cache
def value(own: frozenset, other: frozenset) -> int:
    """The result of perfect play for the player to move: 1, 0 or -1."""
    if any(other.issuperset(line) for line in LINES):
        return -1
    return max((-value(other, own | {move}) for move in range(9) if move not in own | other), default=0)
