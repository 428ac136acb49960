"""What every environment suite must do; each suite's tests call this."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import EnvConfig, random_actions, spec_of
from seed_rl.envs.registry import from_description


def check_suite(config: EnvConfig, steps: int) -> None:
    """Asserts that a config builds vector environments as `EnvConfig` promises.

    Spaces and dtypes are as declared, SAME_STEP autoreset, the same seeds give the same episodes and others give
    others, and the description builds an equal config.
    """
    spec = config.spec()
    assert from_description(config.describe()) == config
    first, second, third = (_play(config, seed, steps) for seed in (1, 1, 2))
    assert any(episode_ended.any() for *_, episode_ended in first), "no episode ended: let it play longer"
    assert _equal(first, second), "the same seed gave another episode"
    assert not _equal(first, third), "another seed gave the same episode"
    env = config.make(2)
    try:
        assert spec_of(env) == spec
        assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    finally:
        env.close()


def _play(config: EnvConfig, seed: int, steps: int) -> list[Any]:
    env, num_envs, action_spec = config.make(3), 3, config.spec().action
    actions = np.random.default_rng(0)
    try:
        observation, _ = env.reset(seed=seed)
        history = [(*_tensors(observation), np.zeros(num_envs), np.zeros(num_envs, bool))]
        for _ in range(steps):
            action = random_actions(action_spec, actions, num_envs)
            observation, reward, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            assert reward.shape == terminated.shape == truncated.shape == (num_envs,)
            assert terminated.dtype == truncated.dtype == np.bool_
            history.append((*_tensors(observation), np.array(reward, float), terminated | truncated))
        return history
    finally:
        env.close()


def _tensors(observation: Any) -> list[np.ndarray]:
    """Copies of the observation's tensors."""
    parts = observation.values() if isinstance(observation, dict) else [observation]
    return [np.array(part) for part in parts]


def _equal(a: list[Any], b: list[Any]) -> bool:
    return all(
        np.array_equal(x, y) for step_a, step_b in zip(a, b, strict=True) for x, y in zip(step_a, step_b, strict=True)
    )
