"""Opponents with frozen weights act in the batches of the learning agent."""

import dataclasses
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.experiment.sizes import Sizes
from seed_rl.extras.league.act_step import Seats
from seed_rl.extras.league.games import with_league
from seed_rl.extras.league.settings import League
from seed_rl.runs.assembly import Assembly, Parts
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgent, CountingAgentConfig

SPEC = EnvSpec(ArraySpec((4,), "int32"), DiscreteSpec(100_000))
PLAYERS, SETS = 2, 3


class Duel(Counting):
    players = PLAYERS


class WeightedAgent(CountingAgent):
    """Its action is 1,000 times its weight, plus the steps of the episode, which its recurrent state counts."""

    def __init__(self):
        super().__init__(CountingAgentConfig(unroll_length=4, overlap=1), SPEC)
        self.weight = tf.Variable(0)

    @property
    def variables(self):
        return [self.weight]

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        answer = super().act(prev_action, env_output, state, env_ids, seed)
        return answer._replace(action=1000 * self.weight + answer.state)


@dataclasses.dataclass(frozen=True)
class Weighted(CountingAgentConfig):
    def build(self, env_spec, num_training_envs, seed):
        return WeightedAgent()


def an_experiment(share, sets=SETS):
    return Experiment(
        env=Duel(),
        agent=Weighted(unroll_length=4, overlap=1),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=4, num_eval_envs=4),
        inference=Inference(max_batch_size=8, stagger_unrolls=False),
        league=League(share=share, sets=sets),
        batch_size=4,
    )


def make_acting(share, sets, logdir):
    experiment = an_experiment(share, sets)
    assembly, parts = with_league(experiment.league, Assembly()), Parts(experiment, str(logdir), ExitStack())
    parts.replicas = SimpleNamespace(inference_devices=("",))
    parts.own, parts.agents, parts.seed = assembly.own(parts), [WeightedAgent()], 1
    parts.sizes = Sizes.of(experiment, WeightedAgent())
    return assembly.acting(parts, 0)


def act(acting, env_ids, restarted, outputs):
    """Acts for a batch as the inference thread does, with a learner that uses unrolls at once."""
    writes, finished = acting.cursor.advance(env_ids)
    acting.unrolls.pool.release(finished)
    return acting.act_step(env_ids, restarted, writes, outputs)


@pytest.mark.parametrize(
    ("share", "num_devices", "rows"), [(0.5, 1, [3, 7, 11, 13, 15]), (0.0, 1, [13, 15]), (0.5, 2, [3, 6, 11, 14, 15])]
)
def test_opponents_play_a_share_of_the_games_and_all_for_evaluation(share, num_devices, rows):
    seats = Seats.of(an_experiment(share), share, num_devices)
    assert np.flatnonzero(seats.away).tolist() == rows
    games = np.arange(16) // (PLAYERS * num_devices) * PLAYERS * num_devices + np.arange(16) % num_devices
    np.testing.assert_array_equal(seats.first_rows, games)


def test_a_draw_of_teams_of_any_sizes_is_exactly_even():
    teams = type("Teams", (Duel,), {"players": 5, "home_players": 2})()
    actors = Actors(num_actors=1, envs_per_group=5)
    weights = Seats.of(dataclasses.replace(an_experiment(1.0), env=teams, actors=actors), 1.0, 1).weights
    goals = np.array([[1, 1, -1, -1, -1], [-1, -1, 1, 1, 1]])
    assert np.add.accumulate((goals * weights[:5]).ravel())[4::5].tolist() == [12, 0]


def test_each_row_is_acted_for_by_its_own_player_and_games_are_counted(tmp_path):
    acting = make_acting(0.5, SETS, tmp_path)
    opponents = acting.act_step
    away = Seats.of(an_experiment(0.5), 0.5, 1).away
    np.testing.assert_array_equal(acting.cursor.recorded, ~away & (np.arange(16) < 12))
    for number in range(SETS):
        opponents.load(number, 70 + number, [np.int32(number + 1)])
    assert not opponents.is_empty

    random = np.random.default_rng(0)
    players, steps, returns, expected, seen = np.zeros(16, int), np.zeros(16, int), np.zeros(16), [], set()
    begun = np.ones(16, bool)
    for turn in range(60):
        games = np.sort(random.choice(8, size=random.integers(1, 5), replace=False))
        env_ids = np.stack([2 * games, 2 * games + 1], axis=1).ravel().astype(np.int32)
        restarted = begun[env_ids]
        done = np.repeat(random.random(len(games)) < 0.3, 2) | restarted
        reward = np.where(restarted, 0, np.stack([r := random.integers(-1, 2, len(games)), -r], axis=1).ravel())
        begun[env_ids] = False
        returns[env_ids] += reward
        expected += [
            (69 + players[each + 1], 0.5 + 0.5 * np.sign(returns[each]))
            for each, over, new in zip(env_ids[::2], done[::2], restarted[::2], strict=True)
            if over and not new and away[each + 1]
        ]
        returns[env_ids[done]] = 0
        steps[env_ids] = np.where(done, 1, steps[env_ids] + 1)

        observation = np.zeros((len(env_ids), 4), np.int32)
        whole = EnvOutput(reward.astype(np.float32), done, np.zeros_like(done), observation)
        cut = 2 * random.integers(len(games)) or len(env_ids)
        pieces = [EnvOutput(*(array[part] for array in whole)) for part in (slice(0, cut), slice(cut, None))]
        actions = act(acting, env_ids, restarted, [piece for piece in pieces if len(piece.reward)])

        chosen, counted = actions // 1000, actions % 1000
        np.testing.assert_array_equal(counted, steps[env_ids], err_msg=f"recurrent states in turn {turn}")
        np.testing.assert_array_equal(chosen > 0, away[env_ids])
        np.testing.assert_array_equal(chosen[~done], players[env_ids[~done]], err_msg="drawn once per episode")
        players[env_ids] = chosen
        seen |= set(chosen)
    assert seen == {0, 1, 2, 3}
    assert opponents.take_results() == expected
    assert not opponents.take_results()


def test_a_game_counts_once_at_its_last_step_unless_its_opponent_is_replaced(tmp_path):
    acting = make_acting(1.0, 1, tmp_path)
    opponents = acting.act_step
    opponents.load(0, 5, [np.int32(1)])
    env_ids = np.arange(2, dtype=np.int32)

    def step(reward=0.0, first=False, done=False, last=False):
        reward = np.array([reward, -reward], np.float32)
        output = EnvOutput(reward, np.full(2, done or first), np.full(2, last), np.zeros((2, 4), np.int32))
        return act(acting, env_ids, np.full(2, first), [output]) // 1000

    assert step(first=True).tolist() == [0, 1]
    opponents.load(0, 6, [np.int32(2)])
    assert step().tolist() == [0, 2]
    step(done=True)
    assert opponents.take_results() == []
    step(done=True)
    assert opponents.take_results() == [(6, 0.5)]
    step(1.0, last=True)
    assert opponents.take_results() == [(6, 1.0)], "truncated"
    step(done=True)
    assert opponents.take_results() == [], "the next one begins"
    step(-1.0, done=True)
    assert opponents.take_results() == [(6, 0.0)]
