"""Players of PettingZoo's board games that search, for `seed_rl tournament`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from seed_rl.envs.base import legal_actions
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput

Act = Callable[[EnvOutput], np.ndarray]
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


FOURS = np.array(
    [
        [(row + n * down, column + n * right) for n in range(4)]
        for row in range(6)
        for column in range(7)
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        if row + 3 * down < 6 and 0 <= column + 3 * right < 7
    ]
)  # [lines, 4, 2]: rows and columns of all lines of connect four


def tic_tac_toe(spec: EnvSpec, seed: int) -> Act:
    """Plays perfectly."""

    def worth(board: np.ndarray, move: int) -> int:
        own, other = (frozenset(np.flatnonzero(board[..., side])) for side in (0, 1))
        return -value(other, own | {move})

    return searching(worth, spec, seed)


def connect_four(spec: EnvSpec, seed: int) -> Act:
    """Look two plies ahead: win if possible, and avoid moves after which the opponent can win."""

    def dropped(own: np.ndarray, other: np.ndarray, column: int) -> np.ndarray:
        after = own.copy()
        after[np.flatnonzero(~(own | other)[:, column]).max(), column] = True
        return after

    def has_four(pieces: np.ndarray) -> bool:
        return bool(pieces[FOURS[..., 0], FOURS[..., 1]].all(axis=1).any())

    def worth(board: np.ndarray, move: int) -> int:
        own, other = board[..., 0].astype(bool), board[..., 1].astype(bool)
        own = dropped(own, other, move)
        replies = np.flatnonzero(~(own | other)[0])
        return 1 if has_four(own) else -int(any(has_four(dropped(other, own, reply)) for reply in replies))

    return searching(worth, spec, seed)


def searching(worth: Callable[[np.ndarray, int], int], spec: EnvSpec, seed: int) -> Act:
    """Chooses at random among the legal moves that are worth most.

    Args:
      worth: maps a board [..., 2], with the pieces of the player to move and those of the other, and a move to a value.
      spec: spec of the environments.
      seed: seed of the choices.
    """
    rng = np.random.default_rng(seed)

    def act(output: EnvOutput) -> np.ndarray:
        boards, turns = output.observation["observation"], output.observation["turn"]
        legal = legal_actions(spec, output.observation)
        moves = legal.argmax(axis=1).astype(np.int32)
        for row in np.flatnonzero(turns[:, 0]):
            values = {move: worth(boards[row], move) for move in np.flatnonzero(legal[row])}
            moves[row] = rng.choice([move for move in values if values[move] == max(values.values())])
        return moves

    return act


@functools.cache
def value(own: frozenset, other: frozenset) -> int:
    """The result of perfect play for the player to move: 1, 0 or -1."""
    if any(other.issuperset(line) for line in LINES):
        return -1
    return max((-value(other, own | {move}) for move in range(9) if move not in own | other), default=0)
