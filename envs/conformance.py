"""A test of the contract that every environment suite must fulfil."""

import itertools
from contextlib import closing

import numpy as np

from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.registry import from_description
from seed_rl.envs.spaces import tensors_of
from seed_rl.envs.vector.steps import outputs, random_play, random_policy
from seed_rl.specs import EnvSpec


def check_suite(config: EnvConfig, steps: int) -> None:
    """Assert that a config builds vector environments as `EnvConfig` promises.

    Spaces and dtypes must be as declared, environments must reset themselves, seeds must determine episodes, also in
    used environments, different seeds give different ones, and the description must build an equal config.

    The suite is registered or has an entry point; in `steps` random actions, an episode must end.
    """
    spec = config.spec()
    assert from_description(config.describe()) == config
    first, any_ended = _play(config, spec, 1, steps)
    second, _ = _play(config, spec, 1, steps, used=config.repeatable)
    third, _ = _play(config, spec, 2, steps)
    assert any_ended, "no episode ended: play more steps"
    assert all(map(np.array_equal, first, second)), "the same seed gave a different episode"
    assert not all(map(np.array_equal, first, third)), "a different seed gave the same episode"
    with closing(config.make(2 * config.players)) as env:
        assert spec_of(env) == spec


def _play(config: EnvConfig, spec: EnvSpec, seed: int, steps: int, used: bool = False) -> tuple[list[np.ndarray], bool]:
    """Step three environments or games, new or used; return copies of all their results, and whether one ended."""
    num_envs = 3 * config.players
    with closing(config.make(num_envs)) as env:
        if used:
            list(itertools.islice(random_play(env, spec, seed + 1), 4))
        history: list[np.ndarray] = []
        any_ended = False
        for output in itertools.islice(outputs(env, random_policy(spec), seed), 1 + steps):
            assert env.observation_space.contains(output.observation)
            assert output.reward.shape == output.done.shape == output.last.shape == (num_envs,)
            assert output.done.dtype == output.last.dtype == np.bool_
            any_ended |= bool(history and (output.done | output.last).any())
            history += map(np.array, [*tensors_of(output.observation).values(), *output[:3]])
        return history, any_ended
