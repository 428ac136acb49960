import ale_py
import cv2
import numpy as np
import pytest

from seed_rl.envs.atari import Atari
from seed_rl.envs.base import random_actions


def test_a_life_may_be_an_episode_and_the_game_continues_after_it():
    config = Atari(game="breakout", terminal_on_life_loss=True, fire_on_reset=True, max_noops=0)
    env, rng = config.make(1), np.random.default_rng(0)
    _, info = env.reset(seed=1)
    assert info["episode_frame_number"][0] > 0, "FIRE was pressed"
    lives = []
    while not lives or lives[-1] != 5:
        *_, terminated, _, info = env.step(rng.integers(4, size=1).astype(np.int32))
        lives += [int(info["lives"][0])] * int(terminated[0])
    assert lives == [4, 3, 2, 1, 5]


def test_episodes_begin_with_up_to_max_noops_and_the_frame_cap_does_not_count_them():
    env = Atari(game="pong", max_noops=3, max_episode_frames=40).make(16)
    _, info = env.reset(seed=1)
    assert set(info["episode_frame_number"]) == {0, 1, 2, 3}
    ends = [env.step(np.zeros(16, np.int32))[3].all() for _ in range(10)]
    assert ends == [False] * 9 + [True]


@pytest.mark.parametrize(("game", "grayscale"), [("air_raid", True), ("breakout", False)])
def test_linear_frames_are_those_of_opencv(make, game, grayscale):
    config = Atari(game=game, resize="linear", grayscale=grayscale, max_noops=0)
    size = {"img_height": 210 if game == "breakout" else 250, "img_width": 160, "stack_num": 1}  # as on the console
    native = ale_py.AtariVectorEnv(game, 2, grayscale=grayscale, noop_max=1, use_fire_reset=False, **size)
    env = make(config, 2)
    frames, screens = (each.reset(seed=3)[0] for each in (env, native))
    rng, action = np.random.default_rng(1), config.spec().action
    for _ in range(20):
        for frame, screen in zip(frames, screens, strict=True):
            expected = cv2.resize(screen[0], (84, 84), interpolation=cv2.INTER_LINEAR)
            np.testing.assert_array_equal(frame[..., 0] if grayscale else frame, expected, strict=True)
        actions = random_actions(action, rng, 2)
        frames, screens = env.step(actions)[0], native.step(actions)[0]


def test_frames_are_blank_as_often_as_asked_and_else_as_they_are():
    blanked, plain = (Atari(max_episode_frames=60, blank_probability=p).make(8) for p in (0.3, 0.0))
    frames = [[env.reset(seed=2)[0]] for env in (blanked, plain)]
    for _ in range(60):
        for seen, env in zip(frames, (blanked, plain), strict=True):
            observation, *_, info = env.step(np.zeros(8, np.int32))
            seen.append(observation)
            assert "final_obs" not in info, "ale-py's isn't the last frame"
    seen, shown = map(np.concatenate, frames)
    blank = ~seen.any(axis=(1, 2, 3))
    assert np.mean(blank) == pytest.approx(0.3, abs=0.08)
    np.testing.assert_array_equal(seen[~blank], shown[~blank])


def test_rewards_are_not_clipped():
    env = Atari(game="space_invaders").make(4)
    env.reset(seed=1)
    rng = np.random.default_rng(1)
    rewards = {float(r) for _ in range(150) for r in env.step(rng.integers(6, size=4))[1]}
    assert rewards >= {0.0, 5.0}, "an invader of the first row gives 5"


def test_the_picture_is_the_screen_of_the_game_that_is_played():
    config = Atari(game="breakout", sticky_actions=0.25, max_episode_frames=200)
    env = config.watch()
    observation, _ = env.reset(seed=5)
    assert env.picture(observation).shape == (210, 160, 3)
    rng, seen, screens, action = np.random.default_rng(1), [], [], config.spec().action
    for _ in range(30):
        observation = env.step(random_actions(action, rng, 1))[0]
        seen.append(np.array(observation)[0, ..., 0])
        gray = cv2.cvtColor(env.picture(observation), cv2.COLOR_RGB2GRAY)
        screens.append(cv2.resize(gray, (84, 84), interpolation=cv2.INTER_AREA).astype(int))
    assert np.abs(np.array(screens) - seen).max() < 3, "but for rounding, the agent sees it in gray"
    assert len({screen.tobytes() for screen in screens}) > 20
    with pytest.raises(ValueError, match="need a seed"):
        env.reset()
    env.close()
