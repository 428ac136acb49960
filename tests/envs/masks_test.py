"""Action masks of environments: what is packed, and what is refused."""

import json
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from seed_rl.envs.base import (
    CannotBuild,
    EnvironmentFailed,
    UniformVectorEnv,
    legal_actions,
    random_actions,
    spec_of,
)
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym
from seed_rl.envs.vector.steps import Steps
from seed_rl.envs.vector.wrappers import MASK, FlatVectorEnv
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec
from tests.support.registered_envs import Masked

ID = "tests.support.registered_envs:Masked-v0"


def masked(keys=(), **options):
    return Gym(ID, options=json.dumps(options), keys=keys)


@pytest.mark.parametrize("where", ["observation", "info", "info before ends", "method"])
@pytest.mark.parametrize("levers", ["choices", "from three"])
def test_a_mask_is_packed_wherever_it_comes_from(where, levers):
    config = masked(where=where, levers=levers)
    spec = config.spec()
    assert [name for name, _ in spec.network_inputs()] == ["board" if where == "observation" else "observation"]
    assert dict(spec.observation_tensors())[LEGAL_ACTIONS] == ArraySpec((1,), "uint8")
    check_suite(config, steps=20)  # an illegal action fails


def test_a_mask_is_taken_for_choices_only_and_keys_drop_it():
    assert not masked(where="info", levers="vector").spec().has_mask
    assert not masked(where="info", levers="from three", keys=("-action_mask",)).spec().has_mask


def test_masks_of_actions_with_names_have_the_order_of_the_actions():
    masks = spaces.Dict({"attack": spaces.MultiBinary(3), "go": spaces.MultiBinary(2)})
    levers = spaces.Dict({"attack": spaces.Discrete(3), "go": spaces.Discrete(2)})
    env = FlatVectorEnv(UniformVectorEnv(1, spaces.Dict({MASK: masks, "board": spaces.Discrete(2)}), levers))
    only = {"attack": np.array([[0, 0, 1]]), "go": np.array([[1, 0]])}
    packed = env.convert({MASK: only, "board": np.zeros(1, np.int64)}, np.zeros(1, bool))
    assert legal_actions(spec_of(env), packed).tolist() == [[False, False, True, True, False]]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_an_episode_may_end_without_a_legal_action(mode):
    spec, rng, last = masked().spec(), np.random.default_rng(0), 0
    steps = Steps(FlatVectorEnv(SyncVectorEnv([Masked] * 8, autoreset_mode=mode)), shows_last=True)
    output = steps.reset(seed=1)
    for _ in range(60):
        legal = legal_actions(spec, output.observation)
        assert (legal.any(axis=1) | output.last).all()
        last += (output.last & ~legal.any(axis=1)).sum()
        output = steps.step(random_actions(spec.action, rng, len(legal), legal))
    assert last > 10


@pytest.mark.parametrize(
    ("config", "kind", "sentence"),
    [
        (masked(allows="none"), EnvironmentFailed, "environment 0 of 2: action_mask has no 1"),
        (masked(allows="first"), EnvironmentFailed, "environment 0 of 2: action_mask has no 1"),
        (masked(where="first info"), EnvironmentFailed, "in every step"),
        (masked(levers="vector"), CannotBuild, r"keys = \('-action_mask',"),
    ],
)
def test_what_is_wrong_is_said(config, kind, sentence):
    with pytest.raises(kind, match=f"{ID}.*{sentence}"), closing(config.make(2)) as env:
        env.reset(seed=1)
