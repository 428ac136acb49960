"""Games of several players, each of which is a row of the batch; games of PettingZoo."""

import itertools

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.agents.vtrace import VTrace
from seed_rl.envs import base
from seed_rl.envs.base import CannotBuild, legal_actions
from seed_rl.envs.catch import Catch
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.experiment import Actors, ConfigError, Devices, Experiment
from seed_rl.learner.device_split import split_devices
from tests.support.leaving_game import Leaving

LEAVING = PettingZoo("tests.support.leaving_game", players=3, roles=("runner", "sitter"))
GPUS = ("GPU:0", "GPU:1", "GPU:2", "GPU:3")


class ThreePlayers(Catch):
    players = 3


def test_groups_and_evaluation_have_whole_games():
    with pytest.raises(CannotBuild, match="Actors.envs_per_group"):
        Experiment(ThreePlayers(), VTrace(), actors=Actors(2, 1, 4, 3))
    whole = Experiment(ThreePlayers(), VTrace(), actors=Actors(2, 1, 6, 3), devices=Devices(GPUS[:2], GPUS[2:]))
    with pytest.raises(ConfigError, match="num_eval_envs"):
        split_devices(whole, GPUS)
    evaluating = Actors(2, 1, 6, 6, eval_options='{"rows": 5}')
    grouped = Experiment(Catch(), VTrace(), actors=evaluating, devices=Devices(GPUS[:2], GPUS[2:4]))
    with pytest.raises(ConfigError, match=r"num_eval_envs must be a multiple of 6 \(a whole game or group\) times"):
        split_devices(grouped, GPUS)


def test_players_keep_their_seats_for_an_episode_and_wait_when_they_have_left(make):
    env, seatings = make(LEAVING, 6), set()
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        seats = observation["observation"][:, 0].astype(int) - 1
        seatings |= {tuple(seats[:3]), tuple(seats[3:])}
        np.testing.assert_array_equal(observation["role"], np.eye(2)[seats // 2])
        for step in range(3):
            plays = seats >= step
            legal = legal_actions(base.spec_of(env), observation)
            assert legal[:, 0].all(), "who waits takes action 0"
            np.testing.assert_array_equal(legal[:, 1:].T, [plays] * 3)
            actions = np.where(plays, 1 + np.arange(6) % 3, 0)
            observation, reward, terminated, truncated, info = env.step(actions)
            np.testing.assert_array_equal(reward, actions)
            if step < 2:
                assert not (terminated | truncated).any(), "the rows of a game end together"
                np.testing.assert_array_equal(observation["observation"][plays, 2], actions[plays])
                assert not observation["observation"][~plays].any()
        np.testing.assert_array_equal(terminated, seats < 2)
        np.testing.assert_array_equal(truncated, seats == 2)
        last = info["final_obs"]["observation"][truncated]
        kept = [[3, 3, action] for action in actions[truncated]]
        np.testing.assert_array_equal(last, kept, err_msg="the reset wrote into the same arrays")
    assert seatings == set(itertools.permutations(range(3))), "every player takes every seat"


def test_the_seed_of_its_first_row_determines_a_game_whatever_is_played_beside_it(make):
    both, second = make(LEAVING, 6), make(LEAVING, 3)
    for seed in range(5):
        roles = [env.reset(seed=own)[0]["role"] for env, own in ((both, seed), (second, seed + 3))]
        np.testing.assert_array_equal(roles[0][3:], roles[1])


def test_a_player_that_leaves_before_the_end_is_terminated_for_whatever_reason(make):
    env = make(PettingZoo(LEAVING.env, 3, '{"truncated": ["runner_0", "runner_1"]}'), 3)
    env.reset(seed=1)
    for _ in range(3):
        _, _, terminated, truncated, _ = env.step(np.ones(3, np.int32))
    assert terminated.all()
    assert not truncated.any()


def test_an_observation_of_the_game_keeps_its_name_unless_it_is_needed(make):
    env = make(PettingZoo(LEAVING.env, 3, '{"also": "turn"}'), 3)
    env.reset(seed=1)
    assert env.step(np.ones(3, np.int32))[0]["turn"].tolist() == [[1]] * 3
    without = PettingZoo(LEAVING.env, 3, '{"also": "turn"}', keys=("-turn",)).spec()
    assert [name for name, _ in without.network_inputs()] == ["observation"]
    turns = PettingZoo(keys=("observation",)).spec()
    assert [name for name, _ in turns.network_inputs()] == ["observation", "turn"]


def test_a_game_of_turns_goes_on_without_a_player_that_is_out(make):
    env = make(PettingZoo("tests.support.eliminating_game", 3), 3)
    observation, _ = env.reset(seed=1)
    spec, movers, rewards = base.spec_of(env), [], []
    for moves in range(5):
        legal = legal_actions(spec, observation)
        movers.append(observation["turn"][:, 0].argmax())
        assert observation["turn"].sum() == 1
        assert legal.sum(axis=1).tolist() == [3 if row == movers[-1] else 1 for row in range(3)]
        assert observation["observation"][movers[-1]] == moves, "as it is now"
        observation, reward, terminated, _, _ = env.step(np.zeros(3, np.int32))
        rewards.append(reward.argmax())
    assert terminated.all()
    assert movers == rewards == [*movers[:3], movers[0], movers[2]]


def test_players_may_act_in_a_dict(make, monkeypatch):
    taken, step = {}, Leaving.step
    own = spaces.Dict({"force": spaces.Box(-1, 1, (2,), np.float32), "tool": spaces.Discrete(3, start=1)})
    monkeypatch.setattr(Leaving, "action_space", lambda game, agent: own)
    monkeypatch.setattr(
        Leaving, "step", lambda game, given: (taken.update(given), step(game, dict.fromkeys(given, 0)))[1]
    )
    env = make(LEAVING, 3)
    seats = env.reset(seed=1)[0]["observation"][:, 0].astype(int) - 1
    env.step(np.array([[0, 0.5, 0], [1, 0, -1], [2, 0.25, 1]], np.float32))
    by_row = [taken[Leaving.possible_agents[seat]] for seat in seats]
    assert all(own.contains(action) for action in by_row)
    assert [(action["tool"], *action["force"]) for action in by_row] == [(1, 0.5, 0), (2, 0, -1), (3, 0.25, 1)]


def test_winner_and_loser_have_their_rewards_in_the_same_step(make):
    env, firsts = make(PettingZoo(), 2), set()
    observation, _ = env.reset(seed=0)
    for _ in range(8):
        first = observation["turn"][:, 0].argmax()
        firsts.add(first)
        for number, move in enumerate([0, 3, 1, 4, 2]):
            mover = first ^ (number % 2)
            assert observation["turn"][:, 0].tolist() == [mover == 0, mover == 1]
            legal = legal_actions(base.spec_of(env), observation)
            assert legal.sum(axis=1).tolist() == [9 - number if row == mover else 1 for row in (0, 1)]
            actions = legal.argmax(axis=1)
            actions[mover] = move
            observation, reward, terminated, _, _ = env.step(actions)
            assert terminated.tolist() == [number == 4] * 2
            assert reward[first] == -reward[1 - first] == (number == 4)
    assert firsts == {0, 1}, "either row begins"
