"""Action masks of environments: where they are found, what is packed, and what is refused."""

import dataclasses
import json
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.actor.steps import Steps
from seed_rl.envs.base import CannotBuild, EnvironmentFailed, UniformVectorEnv, legal_actions, random_actions
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym
from seed_rl.envs.vector.masks import packed
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, DiscreteSpec

ID = "tests.support.registered_envs:Masked-v0"
BITS = ArraySpec((1,), "uint8")


def masked(place="action_mask", levers="choices", allows="some", first_in="reset", **settings):
    options = {"place": place, "levers": levers, "allows": allows, "first_in": first_in}
    return Gym(ID, options=json.dumps(options), **settings)


@pytest.mark.parametrize(
    ("config", "inputs"),
    [
        (masked(), ["observation"]),
        (masked("legal_action_mask", "from three"), ["observation"]),
        (masked("allowed", "from three", action_mask="allowed"), ["observation"]),
        (masked("observation"), ["board"]),
        (masked("method"), ["observation"]),
    ],
    ids=str,
)
def test_masks_are_found_where_environments_give_them(config, inputs):
    spec = config.spec()
    assert [name for name, _ in spec.network_inputs()] == inputs
    assert dict(spec.observation_tensors())[LEGAL_ACTIONS] == BITS
    check_suite(config, steps=20)  # an illegal action fails


def test_without_a_mask_nothing_is_added():
    assert not masked(action_mask="none").spec().has_mask
    ordinary = masked("observation", action_mask="none").spec()
    assert [name for name, _ in ordinary.network_inputs()] == ["action_mask/0", "action_mask/1", "board"]
    kept = masked("observation", action_mask="none", keys=("board",)).spec()
    assert [name for name, _ in kept.observation_tensors()] == ["board"]
    assert not Gym("CartPole-v1").spec().has_mask


def test_an_episode_may_end_without_a_legal_action(make):
    config = masked()
    steps, spec, rng, last = Steps(make(config, 8)), config.spec(), np.random.default_rng(0), 0
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
        (masked(allows="none"), EnvironmentFailed, "allows no action in environment 0 of 2: action_mask is absent"),
        (
            masked(allows="logits"),
            CannotBuild,
            ": action_mask must hold 1 for each legal .*, but holds -inf",
        ),
        (masked("elsewhere", action_mask="here"), CannotBuild, "nor info has an action mask 'here'"),
        (masked("observation", "vector"), CannotBuild, r"actions Box.* no mask, but action_mask has 1: keys = \('-"),
    ],
)
def test_what_is_wrong_is_said(config, kind, sentence):
    with pytest.raises(kind, match=f"^{ID}.*{sentence}"), closing(config.make(2)) as env:
        env.reset(seed=1)


def test_a_mask_that_would_be_ignored_is_found_before_training():
    config = masked(levers="from one", first_in="step")
    with pytest.raises(
        CannotBuild, match=rf"^{ID} has an action mask in info\['action_mask'\] of a step, but had none"
    ):
        config.make(2)
    with closing(dataclasses.replace(config, action_mask="none").make(2)) as env:
        assert LEGAL_ACTIONS not in env.single_observation_space


class Told(UniformVectorEnv):
    """Has masks of these lengths in its `info`, one result after another, which hold a value."""

    def __init__(self, *lengths, value=1):
        super().__init__(2, spaces.Box(-1, 1, (1,)), spaces.Discrete(3))
        self._lengths, self._value = iter(lengths), value

    def reset(self, **_):
        return np.zeros((2, 1), np.float32), self._info()

    def step(self, actions):
        nothing = np.zeros(2, bool)
        return np.zeros((2, 1), np.float32), nothing.astype(float), nothing, nothing, self._info()

    def _info(self):
        length = next(self._lengths)
        return {"action_mask": np.full((2, length), self._value)} if length else {}


def test_masks_of_a_native_vector_environment_are_those_of_its_first_reset():
    actions = np.zeros(2, np.int32)
    with pytest.raises(CannotBuild, match="^Told: action_mask had 3 values in the first reset, but came with 4$"):
        packed(Told(3, 4), name="Told", in_info=True).step(actions)
    with pytest.raises(CannotBuild, match=r"^Told has an action mask in info\['action_mask'\] of a step, but had none"):
        packed(Told(0, 3), name="Told", in_info=True)
    with pytest.raises(CannotBuild, match="^Told: action_mask must hold 1 for each legal action and 0 .*holds 0.5$"):
        packed(Told(3, 3, value=0.5), name="Told", in_info=True).reset()


def test_a_mask_of_combinations_makes_them_one_choice(make):
    config = Gym("Minesweeper-v0", envpool=True)
    env, spec, rng = make(config, 4), config.spec(), np.random.default_rng(0)
    assert spec.action == DiscreteSpec(100)
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        legal = legal_actions(spec, observation)
        closed = observation["board"].reshape(4, -1) == -1
        np.testing.assert_array_equal(legal, closed)
        observation, *_ = env.step(random_actions(spec.action, rng, 4, legal))
    assert not closed.all()


def test_masks_in_the_info_of_a_pool_are_found(make):
    config = Gym("Play2048-v1", envpool=True)
    env, spec, rng = make(config, 3), config.spec(), np.random.default_rng(0)
    observation, _ = env.reset(seed=1)
    changed = 0
    for _ in range(50):
        legal = legal_actions(spec, observation)
        before = observation["observation"]
        observation, _, terminated, *_ = env.step(random_actions(spec.action, rng, 3, legal))
        assert not terminated.any()
        assert (observation["observation"] != before).reshape(3, -1).any(axis=1).all(), "legal moves change the board"
        changed += (~legal).sum()
    assert changed > 10
