"""Football in both backends: the same engine, so that the same seeds and actions must give the same matches."""

from types import SimpleNamespace

import envpool
import numpy as np
import pytest
from gfootball.env import scenario_builder

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.football import SCENARIOS, Football
from seed_rl.envs.football.engine import FootballGame
from seed_rl.envs.football.maps import LAYERS, STACK, CheckpointRewards, PackedMaps, first_map
from seed_rl.envs.vector.pool import EnvPoolVectorEnv

DRILL = "academy_empty_goal_close"


@pytest.mark.parametrize("backend", ["gfootball", "envpool"])
def test_conformance(backend):
    check_suite(Football(DRILL, rewards="scoring,checkpoints", num_action_repeats=3, backend=backend), steps=45)


def test_both_packages_have_the_scenarios():
    own = {name for name in scenario_builder.all_scenarios() if name != "tests" and "test" not in name}
    assert set(SCENARIOS) == own
    pools = {name for name in envpool.list_all_envs() if name.startswith("gfootball/")}
    assert {f"gfootball/{name}-v1" for name in SCENARIOS} == pools


@pytest.mark.parametrize("scenario", [DRILL, "11_vs_11_easy_stochastic"])
def test_both_backends_play_the_same_match(scenario):
    """Maps, rewards for goals and ends. Not compared: who has the ball, of which EnvPool only reports the team."""
    pool = EnvPoolVectorEnv(f"gfootball/{scenario}-v1", 1, {})
    engine_seed = int(pool.reset(seed=5)[1]["engine_seed"][0])
    env, engine = PackedMaps(pool, checkpoints=False), FootballGame(Football(scenario))
    (observation,), (expected,) = env.reset(seed=5)[0], engine.reset(engine_seed)
    rng = np.random.default_rng(0)
    for step in range(80):
        np.testing.assert_array_equal(observation, expected, err_msg=f"step {step}")
        action = rng.integers(19, size=1)
        (observation,), reward, terminated, truncated, _ = env.step(action)
        (expected,), expected_reward, done, _ = engine.step(action)
        assert (reward, terminated, truncated) == (expected_reward, done[0], False)
        if done[0]:
            break
    assert done[0] == (scenario == DRILL)
    if done[0]:
        (observation,), *results, _ = env.step(action)
        assert np.ravel(results).tolist() == [0, False, False]
        newest = observation >> np.uint16(LAYERS * (STACK - 1))
        np.testing.assert_array_equal(observation, first_map(newest), err_msg="maps begin anew")
    engine.env.close()
    env.close()


def test_both_teams_observe_and_act_as_if_from_left_to_right(make):
    game, columns, rewards, ended = FootballGame(Football(DRILL, right_players=1)), [], np.zeros(2), [False]
    game.reset(3)  # the goal of the right team is empty: its keeper stands at the other end, to the right of its map
    while not ended[0]:
        stacked, reward, ended, _ = game.step([5 if len(columns) < 60 else 12, 1])  # right, then shoot; left
        columns.append([((own >> LAYERS * (STACK - 1) + 3) & 1).any(axis=0).argmax() for own in stacked])
        rewards += reward
    assert rewards.tolist() == [1, -1]
    ran = np.subtract(columns[-2], columns[0])  # after a goal, the players are at their places again
    assert ran[0] > 5
    assert ran[1] < -5
    game.env.close()
    assert make(Football(DRILL, right_players=1), 2).reset(seed=3)[0].shape[0] == 2, "a row for each player"


def test_more_players_than_a_scenario_has_are_refused():
    with pytest.raises(CannotBuild, match="^academy_.* has fewer players than 3 players of the left team and 0 of the"):
        Football(left_players=3).make(3)


def test_teams_change_sides_only_if_they_are_equal():
    for right, expected in ((2, {(0, 1, 2, 3), (2, 3, 0, 1)}), (1, {(0, 1, 2)})):
        game, rng = SimpleNamespace(players=2 + right, _left=2), np.random.default_rng(0)
        assert {tuple(FootballGame.seating(game, rng)) for _ in range(20)} == expected


@pytest.mark.parametrize(("backend", "repeats"), [("gfootball", 1), ("envpool", 4)])
def test_a_goal_and_its_checkpoints_give_two_in_all(make, backend, repeats):
    config = Football(DRILL, rewards="scoring,checkpoints", num_action_repeats=repeats, backend=backend)
    env = make(config, 1)
    env.reset(seed=3)
    rewards, ended = [], False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(np.array([5], np.int32))  # to the right, into the goal
        rewards.append(reward[0])
        ended = bool(terminated[0] | truncated[0])
    assert sum(rewards) == pytest.approx(2)
    assert min(rewards) >= 0
    assert np.count_nonzero(rewards) > 2, "circles are entered one by one"
    assert 30 <= len(rewards) * repeats <= 32


def test_checkpoints_are_collected_once_and_a_goal_brings_the_rest():
    rewards = CheckpointRewards(3)
    here = lambda x: np.array([[x, 0.0]] * 3)  # noqa: E731
    everyone, nobody, none = np.ones(3, bool), np.zeros(3, bool), np.zeros(3)
    assert rewards.step(none, here(0.0), everyone) == pytest.approx([0, 0, 0]), "1 from the goal is outside of 0.99"
    assert rewards.step(none, here(0.5), nobody) == pytest.approx([0, 0, 0]), "without the ball"
    assert rewards.step(none, here(0.02), everyone) == pytest.approx([0.1] * 3)
    assert rewards.step(none, here(0.5), np.array([True, False, False])) == pytest.approx([0.5, 0, 0])
    assert rewards.step(none, here(0.02), everyone) == pytest.approx([0, 0, 0]), "nearer circles stay collected"
    assert rewards.step(np.array([1, 1, -1]), here(1.0), nobody) == pytest.approx([0.4, 0.9, 0])
    assert rewards.step(none, here(0.9), everyone) == pytest.approx([0, 0, 0.9])
    rewards.begin(np.array([True, False, False]))
    assert rewards.step(none, here(0.9), everyone) == pytest.approx([1.0, 0, 0])
