"""Memory: what it shows when, and what policies with and without memory are worth."""

import numpy as np
import pytest

from seed_rl.envs import registry
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.memory import Memory
from seed_rl.specs import EnvDescription


@pytest.mark.parametrize("config", [Memory(), Memory(num_cues=2, delay=1), Memory(num_cues=7, delay=3)])
def test_conformance(config):
    check_suite(config, steps=60)


def test_one_episode_is_a_cue_then_nothing_then_a_light():
    env = Memory(num_cues=3, delay=2).make(50)
    observation, _ = env.reset(seed=0)
    first = observation
    assert observation.shape == (50, 1, 4, 1)
    assert np.all(np.sort(observation[:, 0, :, 0]) == [0, 0, 0, 255])
    assert not observation[:, 0, 3, 0].any()
    assert set(observation[:, 0, :, 0].argmax(axis=1)) == {0, 1, 2}
    for _ in range(2):
        observation, reward, terminated, truncated, _ = env.step(np.zeros(50, int))
        assert not observation.any()
        assert not reward.any()
        assert not terminated.any()
    observation, reward, terminated, truncated, _ = env.step(np.zeros(50, int))
    assert np.all(observation[:, 0, :, 0] == [0, 0, 0, 255])
    assert not reward.any()
    assert not terminated.any()
    observation, reward, terminated, truncated, _ = env.step(np.full(50, 2))
    np.testing.assert_array_equal(reward, first[:, 0, 2, 0] == 255)
    assert terminated.all()
    assert not truncated.any()
    # The observation is the next episode's cue.
    assert np.all(np.sort(observation[:, 0, :, 0]) == [0, 0, 0, 255])
    assert not np.array_equal(observation, first)


def play(config, policy, num_envs=500, episodes=20, seed=0):
    """Returns [episodes, E] of `policy`, observations [E, num_cues + 1] and state -> actions [E] and state."""
    env = config.make(num_envs)
    observation, _ = env.reset(seed=seed)
    returns, state = [], None
    for _ in range(episodes):
        total = np.zeros(num_envs)
        for step in range(config.delay + 2):
            actions, state = policy(observation[:, 0, :, 0], state)
            observation, reward, terminated, truncated, _ = env.step(actions)
            total += reward
            assert np.all(terminated == (step == config.delay + 1))
            assert not truncated.any()
        returns.append(total)
    return np.array(returns)


def remember(pixels, cue):
    """The cue as long as it is seen, later the one seen last."""
    seen = pixels[:, :-1].any(axis=1)
    cue = np.where(seen, pixels.argmax(axis=1), 0 if cue is None else cue)
    return cue, cue


@pytest.mark.parametrize(("num_cues", "delay"), [(2, 1), (4, 10), (5, 3)])
def test_perfect_memory_is_always_right(num_cues, delay):
    returns = play(Memory(num_cues=num_cues, delay=delay), remember)
    assert returns.shape == (20, 500)
    assert np.all(returns == 1.0)


def test_who_forgets_is_right_by_chance():
    """Whatever is done at the light is a function of the light alone, perhaps a random one."""
    config = Memory(num_cues=4, delay=2)
    rng = np.random.default_rng(1)
    policies = [
        lambda pixels, _, i=i: (np.where(pixels.any(axis=1), (pixels.argmax(1) + i) % 4, i), None) for i in range(4)
    ]
    policies.append(lambda pixels, _: (rng.integers(4, size=len(pixels)), None))
    for policy in policies:
        returns = play(config, policy)
        assert set(np.unique(returns)) == {0.0, 1.0}
        np.testing.assert_allclose(returns.mean(), 0.25, atol=5 * np.sqrt(0.25 * 0.75 / returns.size))


def test_only_the_last_action_counts():
    config, seed = Memory(num_cues=3, delay=4), 5
    noise = np.random.default_rng(0)

    def remember_but_fidget(pixels, cue):
        cue, _ = remember(pixels, cue)
        return np.where(pixels[:, -1] > 0, cue, noise.integers(3, size=len(pixels))), cue

    assert np.all(play(config, remember_but_fidget, seed=seed) == 1.0)


def test_the_suite_is_registered():
    assert registry.from_description(EnvDescription("memory", {"delay": 3})) == Memory(delay=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_cues": 1}, "Memory.num_cues must be at least 2, got 1"),
        ({"delay": 0}, "Memory.delay must be at least 1, got 0"),
        ({"delay": 1.5}, "Memory.delay must be int, got 1.5"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        registry.from_description(EnvDescription("memory", options))
