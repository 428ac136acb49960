"""Acts for opponents with frozen weights, beside the learning agent and in the same inference batches."""

import collections
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import ActStep
from seed_rl.rl.randomness import split
from seed_rl.runs.assembly import Parts
from seed_rl.types import EnvOutput

_NO_MEMBER = -1


class Seats(NamedTuple):
    """The rows of games of several players, by environment id; a game's rows are consecutive ids of a device."""

    away: np.ndarray  # bool [N]: whether the row is played by members of the league
    first_rows: np.ndarray  # int [N]: id of the first row of the game to which the row belongs
    weights: np.ndarray
    """float [N]: weight of the row's reward in the result of a game with opponents, negative for these.

    It is the number of rows of the other side, so that sides of different sizes count equally, and a draw adds up to
    exactly 0.
    """

    @classmethod
    def of(cls, experiment: Experiment, share: float, num_devices: int) -> Self:
        """Give opponents a share of the training games, on all inference devices, and all those for evaluation."""
        actors, env = experiment.actors, experiment.env
        ids = np.arange(actors.num_envs)
        rows = ids // num_devices  # of the device
        games, players = np.divmod(rows, env.players)
        order = ids % num_devices * (actors.num_training_envs // num_devices // env.players) + games
        spread = np.floor((order + 1) * share) > np.floor(order * share)
        away = (players >= env.home_players) & (spread | (ids >= actors.num_training_envs))
        weights = np.where(away, -float(env.home_players), float(env.players - env.home_players))
        return cls(away, ids - players * num_devices, weights)


class LeagueActStep(ActStep):
    """An act step whose batches may have rows of opponents.

    It has several agents with frozen weights. When an episode begins in a game with opponents, one of the agents is
    drawn for all of them. A batch takes two calls: one for the rows of the learning agent, and one for those of all
    opponents, in equal parts for each frozen agent.
    """

    def __init__(self, parts: Parts, number: int, store: UnrollStore, frozen: Sequence[Agent], seats: Seats):
        """Act on inference device `number`, which has the `frozen` agents, too; for the rest see `ActStep`."""
        agent, sizes, seed = parts.agents[number], parts.sizes, parts.seed_of(number)
        device = parts.replicas.inference_devices[number]
        batches = {*sizes.act_batches, -(-3 * sizes.max_batch // 4)}  # of a full batch, opponents may have a quarter
        super().__init__(agent, store, dataclasses.replace(sizes, act_batches=tuple(sorted(batches))), seed, device)
        self._agents, self._seats = frozen, seats
        self._parts = sorted({-(-size // 2) for size in sizes.act_batches} | {sizes.max_batch})
        own_sizes = dataclasses.replace(sizes, act_batches=tuple(len(frozen) * part for part in self._parts))
        nowhere = UnrollStore(agent.step_spec, 0, 0, device)
        own_seed = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0] >> 1)
        self._frozen_step = ActStep(cast(Agent, _Parts(frozen)), nowhere, own_sizes, own_seed, device)
        self._members = [_NO_MEMBER] * len(frozen)
        self._nobody = sizes.num_envs  # id of padding
        own = np.arange(sizes.num_envs) % sizes.num_devices == number
        self._is_first = np.zeros(sizes.num_envs, bool)
        self._is_first[seats.first_rows[seats.away & own]] = True  # of a game with opponents
        self._over = np.zeros(sizes.num_envs, bool)  # whether the last output of a truncated episode has come
        self._drawn = np.zeros(sizes.num_envs, np.int64)  # agent that plays in the game, by its first row
        self._counts = np.zeros(sizes.num_envs, bool)  # whether the result of the episode will count
        self._returns = np.zeros(sizes.num_envs)
        self._random = np.random.default_rng([seed, number])
        self._results: collections.deque[tuple[int, float]] = collections.deque()
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether some agents have no member's weights yet."""
        return _NO_MEMBER in self._members

    def load(self, number: int, member: int, weights: Sequence[np.ndarray]) -> None:
        """Give an agent the weights of a member, in the order of its variables. Games in progress will not count."""
        with self._lock:
            for variable, array in zip(self._agents[number].variables, weights, strict=True):
                variable.assign(array)
            self._members[number] = member
            self._counts[self._drawn == number] = False

    def take_results(self) -> list[tuple[int, float]]:
        """Return a member and the learning agent's result for each game since the last call.

        It is 1 if its rows had a higher mean return than the opponents', 0 if they had a lower one, otherwise 0.5.
        """
        return [self._results.popleft() for _ in range(len(self._results))]

    def warm_up(self, sizes: Sequence[int] | None = None) -> None:
        """Compile all sizes: that of a part differs from batch to batch."""
        super().warm_up()
        self._frozen_step.warm_up()

    def __call__(
        self, env_ids: np.ndarray, restarted: np.ndarray, writes: StepWrites, outputs: Sequence[EnvOutput]
    ) -> np.ndarray:
        away = self._seats.away[env_ids]
        theirs, ours = np.flatnonzero(away), np.flatnonzero(~away)
        if not len(theirs):  # no copy of the observations, and no game with opponents to follow
            return super().__call__(env_ids, restarted, writes, outputs)
        output = outputs[0] if len(outputs) == 1 else tf.nest.map_structure(lambda *of: np.concatenate(of), *outputs)
        spec = self._agents[0].env_spec.action.tensor
        actions = np.empty((len(env_ids), *spec.shape), spec.dtype)
        with self._lock:
            self._follow(env_ids, restarted, output)
            to = StepWrites(*(each[..., ours] for each in writes))  # the home players' rows, which each game has
            actions[ours] = super().__call__(env_ids[ours], restarted[ours], to, [rows_of(output, ours)])
            at, rows = self._arranged(theirs, self._drawn[self._seats.first_rows[env_ids[theirs]]])
            ids = np.full(len(rows), self._nobody, env_ids.dtype)
            ids[at] = env_ids[theirs]
            nowhere = np.zeros(len(rows), np.int32)
            to = StepWrites(nowhere, opened=nowhere)
            actions[theirs] = self._frozen_step(ids, restarted[rows], to, [rows_of(output, rows)])[at]
            self.padding += len(rows) - len(theirs)
        return actions

    def _arranged(self, rows: np.ndarray, agents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Arrange rows in equal parts by agent: return their positions there, and the row at each position."""
        counts = np.bincount(agents, minlength=len(self._agents))
        part = next(size for size in self._parts if size >= counts.max())
        order = np.argsort(agents, kind="stable")
        at = np.empty(len(rows), np.int64)
        at[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + part * agents[order]
        arranged = np.full(part * len(counts), rows[0])  # padding repeats a row, and acts for nobody
        arranged[at] = rows
        return at, arranged

    def _follow(self, env_ids: np.ndarray, restarted: np.ndarray, output: EnvOutput) -> None:
        """Note the results of games that have ended, and draw the opponents of those that begin."""
        np.add.at(self._returns, self._seats.first_rows[env_ids], self._seats.weights[env_ids] * output.reward)
        first = self._is_first[env_ids]
        ids, restarted, last = env_ids[first], restarted[first], output.last[first]
        over = (output.done[first] | last) & ~self._over[ids] & ~restarted
        for each in ids[over & self._counts[ids]]:
            self._results.append((self._members[self._drawn[each]], 0.5 + 0.5 * float(np.sign(self._returns[each]))))
        self._over[ids] = last
        begun = ids[over | restarted]
        self._returns[begun] = 0
        self._drawn[begun] = self._random.integers(len(self._members), size=len(begun))
        self._counts[begun] = True


class _Parts:
    """Acts for K equal parts of a batch, as far as an act step needs an agent, with one agent each."""

    def __init__(self, agents: Sequence[Agent]):
        self._agents = agents
        self.env_spec, self.variables = agents[0].env_spec, agents[0].variables
        self.step_spec, self.state_spec = agents[0].step_spec, agents[0].state_spec
        self.stored_state = agents[0].stored_state

    def act(self, prev_action: Any, env_output: Any, state: Any, env_ids: Any, seed: Any, greedy: Any) -> ActOutput:

        def part(tensors: Any, number: int) -> Any:
            return tf.nest.map_structure(lambda tensor: tf.split(tensor, len(self._agents))[number], tensors)

        outputs, seeds = [], split(seed, len(self._agents))
        for number, agent in enumerate(self._agents):
            own: tuple[Any, Any, Any, Any] = part((prev_action, env_output, state, env_ids), number)
            own_greedy = greedy if isinstance(greedy, bool) else part(greedy, number)
            outputs.append(agent.act(*own, seeds[number], own_greedy))
        return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)  # type: ignore[no-any-return]


def rows_of(output: EnvOutput, rows: np.ndarray) -> EnvOutput:
    """Return the outputs of some rows, int [n]."""
    return tf.nest.map_structure(lambda array: array[rows], output)  # type: ignore[no-any-return]
