"""Gymnasium's environments as a suite: each way to run many at once, each kind of space, and where episodes end."""

import itertools
import pathlib

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.envs import registry
from seed_rl.envs.autoreset import SameStep
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.flatten import FlatVectorEnv
from seed_rl.envs.gym import Gym
from seed_rl.envs.registry import CannotBuild
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, EnvDescription, MultiDiscreteSpec

COUNTED, ECHO = "registered_envs:Counted-v0", "registered_envs:Echo-v0"


@pytest.fixture(autouse=True)
def registered_envs(monkeypatch):
    """The module beside this one can be imported, also by the processes of environments."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)


@pytest.fixture
def make():
    made = []

    def make_envs(config, num_envs):
        made.append(config.make(num_envs))
        return made[-1]

    yield make_envs
    for env in made:
        env.close()


def echo(senses="flat", levers="choices", **settings):
    return Gym(ECHO, options=f'{{"senses": "{senses}", "levers": "{levers}"}}', **settings)


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (Gym("CartPole-v1"), 80),
        (Gym("CartPole-v1", vectorization="async"), 80),
        (Gym("CartPole-v1", vectorization="vector_entry_point"), 80),
        (Gym("Pendulum-v1"), 210),
        (Gym("Blackjack-v1"), 20),
        (Gym("FrozenLake-v1"), 60),
        (Gym("FrozenLake-v1", options='{"map_name": "8x8"}'), 120),
        (echo("nested"), 20),
        (echo("nested", "table of choices", vectorization="async"), 20),
        (echo("tuple", "from three"), 20),
        (echo(levers="choices"), 20),
        (echo("one part", levers="matrix of doubles"), 20),
        (echo("channels first"), 20),
        (echo("choices"), 20),
        (echo(levers="number"), 20),
    ],
    ids=str,
)
def test_it_is_a_suite(config, steps):
    check_suite(config, steps)


@pytest.mark.parametrize(
    ("id_", "text"),
    [
        ("CartPole-v1", "observation float32[4]; action Discrete(2)"),
        ("Pendulum-v1", "observation float32[3]; action Continuous(-2..2)"),
        ("Blackjack-v1", "0 bool[32], 1 bool[11], 2 bool[2]; action Discrete(2)"),
        ("FrozenLake-v1", "observation bool[16]; action Discrete(4)"),
    ],
)
def test_spaces_of_well_known_environments(id_, text):
    assert str(Gym(id_).spec()) == text


def test_frames_per_step_are_what_a_step_counts_as():
    assert Gym("CartPole-v1").action_repeat == 1
    assert Gym("CartPole-v1", frames_per_step=4).action_repeat == 4


def test_options_are_the_environments_own(make):
    heavy, light = (make(Gym("Pendulum-v1", options=f'{{"g": {g}}}'), 1) for g in (20.0, 0.0))
    assert heavy.reset(seed=0)[0].tolist() == light.reset(seed=0)[0].tolist()
    still = np.zeros((1, 1), np.float32)
    assert heavy.step(still)[0].tolist() != light.step(still)[0].tolist()


# Where episodes end.


def counted_step(steps, ends_late):
    """What environment `Counted` says after so many steps: observation without seed, reward, terminated, truncated."""
    for episode in itertools.count():
        length = 2 + episode % 3
        if steps < length or (ends_late and steps == length):
            return [episode, steps], 10 * episode + steps, False, False
        # The reward of the last action comes with the end; or, if the end comes late, before it.
        if steps == length + ends_late:
            return [episode + 1, 0], 0 if ends_late else 10 * episode + length, episode % 2 == 0, episode % 2 == 1
        steps -= length + ends_late


def assert_counts(env, steps, ends_late=False):
    """Plays an environment of three `Counted`."""
    observation, _ = env.reset(seed=5)
    assert observation.tolist() == [[5, 0, 0], [6, 0, 0], [7, 0, 0]]
    episodes = set()
    for step in range(1, steps + 1):
        before, copy = observation, observation.copy()
        observation, reward, terminated, truncated, _ = env.step(np.array([0, 1, step % 2], np.int32))
        np.testing.assert_array_equal(before, copy, err_msg="what a step returned stays as it is")
        expected, *rest = counted_step(step, ends_late)
        episodes.add(expected[0])
        assert observation[:, 1:].tolist() == [expected] * 3
        assert observation[:, 0].tolist() == ([5, 6, 7] if expected[0] == 0 else [-1] * 3), "others have no seed"
        assert [reward.tolist(), terminated.tolist(), truncated.tolist()] == [[value] * 3 for value in rest]
    assert max(episodes) >= 4


def test_the_oracle_of_the_following_by_hand():
    same = [counted_step(step, ends_late=False) for step in range(1, 6)]
    assert same == [
        ([0, 1], 1, False, False),
        ([1, 0], 2, True, False),
        ([1, 1], 11, False, False),
        ([1, 2], 12, False, False),
        ([2, 0], 13, False, True),
    ]
    late = [counted_step(step, ends_late=True) for step in range(1, 8)]
    assert late == [
        ([0, 1], 1, False, False),
        ([0, 2], 2, False, False),
        ([1, 0], 0, True, False),
        ([1, 1], 11, False, False),
        ([1, 2], 12, False, False),
        ([1, 3], 13, False, False),
        ([2, 0], 0, False, True),
    ]


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_end_of_an_episode_comes_with_the_first_observation_of_the_next(make, vectorization):
    env = make(Gym(COUNTED, vectorization=vectorization), 3)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert_counts(env, 20)


@pytest.mark.parametrize(("name", "ends_late"), [("Same", False), ("Next", True), ("Silent", True)])
def test_an_environment_of_its_own_ends_its_episodes_one_way_or_the_other(make, name, ends_late):
    env = make(Gym(f"registered_envs:Counted{name}-v0", vectorization="vector_entry_point"), 3)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert_counts(env, 20, ends_late)


def test_an_environment_that_does_not_reset_by_itself_is_refused():
    config = Gym("registered_envs:CountedDisabled-v0", vectorization="vector_entry_point")
    with pytest.raises(CannotBuild, match="CountedDisabled-v0 does not reset its environments by itself"):
        config.make(2)


def test_a_reset_forgets_an_end_that_was_to_be_told(make):
    env = make(Gym("registered_envs:CountedNext-v0", vectorization="vector_entry_point"), 1)
    action = np.zeros(1, np.int32)
    env.reset(seed=1)
    env.step(action)
    env.step(action)  # the last of the first episode
    assert env.reset(seed=2)[0].tolist() == [[2, 1, 0]]
    observation, reward, terminated, truncated, _ = env.step(action)
    assert (observation.tolist(), reward.tolist()) == ([[2, 1, 1]], [11])
    assert not (terminated | truncated).any()


class Scripted(VectorEnv):
    """Two environments that reset in the next step, and say what a script says. Their flags are arrays that change."""

    #       observations  rewards  terminated  truncated
    script = (
        ([11, 21], [1, 2], [0, 0], [0, 0]),
        ([12, 22], [3, 4], [1, 0], [0, 0]),  # the last of the first environment
        ([10, 23], [0, 5], [0, 0], [0, 1]),  # its first; the last of the second
        ([11, 20], [6, 0], [1, 0], [1, 0]),  # an episode of one step, ended both ways; the second's first
        ([10, 21], [0, 7], [0, 1], [0, 0]),
        ([11, 20], [8, 0], [0, 0], [0, 0]),
    )

    def __init__(self):
        self.num_envs = 2
        self.single_observation_space = spaces.Box(0, 99, (), np.int64)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.actions = []
        self._flags = np.zeros((2, 2), bool)

    def reset(self, *, seed=None, options=None):
        return np.array([10, 20]), {}

    def step(self, actions):
        observation, reward, terminated, truncated = self.script[len(self.actions)]
        self.actions.append(list(actions))
        self._flags[:] = terminated, truncated
        return np.array(observation), np.array(reward), *self._flags, {}


def test_ends_are_told_one_step_late_and_all_else_at_once():
    inner = Scripted()
    env = SameStep(inner)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert inner.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP, "it is not changed itself"
    assert env.reset(seed=3)[0].tolist() == [10, 20]
    told = [env.step([step, step + 1]) for step in range(6)]
    assert inner.actions == [[step, step + 1] for step in range(6)]
    assert [(list(o), list(r)) for o, r, *_ in told] == [(o, r) for o, r, *_ in inner.script]
    assert [list(terminated) for _, _, terminated, _, _ in told] == [
        [False, False],
        [False, False],
        [True, False],
        [False, False],
        [True, False],
        [False, True],
    ]
    assert [list(truncated) for _, _, _, truncated, _ in told] == [
        [False, False],
        [False, False],
        [False, False],
        [False, True],
        [True, False],
        [False, False],
    ]


@pytest.mark.parametrize("vectorization", ["sync", "async", "vector_entry_point"])
def test_episodes_of_cartpole_begin_upright_and_earn_a_point_a_step(make, vectorization):
    env = make(Gym("CartPole-v1", vectorization=vectorization), 4)
    env.reset(seed=0)
    late, rng = vectorization == "vector_entry_point", np.random.default_rng(0)
    lengths, returns, episodes = np.zeros(4), np.zeros(4), 0
    for _ in range(150):
        observation, reward, terminated, truncated, _ = env.step(rng.integers(2, size=4).astype(np.int32))
        lengths, returns = lengths + 1, returns + reward
        done = terminated | truncated
        assert np.all(np.abs(observation[done]) <= 0.05)
        np.testing.assert_array_equal(returns[done], lengths[done] - late)
        episodes += done.sum()
        lengths[done] = returns[done] = 0
    assert episodes > 10


# Spaces.


def test_observations_of_any_structure_are_named_by_their_path(make):
    env = make(echo("nested"), 2)
    spec = echo("nested").spec()
    assert spec.observation == {
        "camera/left": ArraySpec((2, 3, 1), "uint8"),
        "camera/right": ArraySpec((2, 3, 1), "uint8"),
        "mode": ArraySpec((3,), "bool"),
        "pair/0": ArraySpec((2,), "bool"),
        "pair/1": ArraySpec((), "float64"),
    }
    observation, _ = env.reset(seed=0)
    assert observation.keys() == spec.observation.keys()
    for name, tensor in observation.items():
        assert (tensor.dtype, tensor.shape[1:]) == (spec.observation[name].dtype, spec.observation[name].shape), name
        assert tensor.flags.c_contiguous, name


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_every_part_of_an_observation_is_that_of_the_environment(make, vectorization):
    env = make(echo("nested", vectorization=vectorization), 3)
    space = make(echo("nested"), 1).unwrapped.single_observation_space
    observation, _ = env.reset(seed=4)
    for index in range(3):
        space.seed(4 + index)
        own = space.sample()
        np.testing.assert_array_equal(observation["camera/left"][index], own["camera"]["left"])
        np.testing.assert_array_equal(observation["camera/right"][index], own["camera"]["right"])
        assert observation["mode"][index].tolist() == [own["mode"] == value for value in (5, 6, 7)]
        assert observation["pair/0"][index].tolist() == [own["pair"][0] == value for value in (0, 1)]
        assert observation["pair/1"][index] == own["pair"][1]


def test_parts_of_tuples_are_named_by_their_number(make):
    assert echo("tuple").spec().observation == {"0": ArraySpec((1, 2), "float16"), "1/0": ArraySpec((4,), "bool")}
    env = make(echo("tuple"), 30)
    observation, _ = env.reset(seed=0)
    assert {tuple(row) for row in observation["1/0"].tolist()} == {tuple(row) for row in np.eye(4, dtype=bool).tolist()}


def test_a_dict_of_one_part_stays_a_dict():
    assert echo("one part").spec().observation == {"only": ArraySpec((4,), "bool")}


@pytest.mark.parametrize(
    ("senses", "spec"),
    [
        ("bytes with a sign", ArraySpec((2,), "int32")),
        ("large", ArraySpec((2,), "float64")),
        ("bits", ArraySpec((3,), "bool")),
        ("choices", ArraySpec((5,), "bool")),
        ("channels first", ArraySpec((20, 30, 2), "uint8")),
        ("gray", ArraySpec((20, 30, 1), "uint8")),
        ("board", ArraySpec((7, 7), "uint8")),
        ("depth", ArraySpec((20, 30), "int32")),
    ],
)
def test_other_observations_take_a_form_that_can_be_sent(make, senses, spec):
    assert echo(senses).spec().observation == spec
    env = make(echo(senses), 3)
    observation, _ = env.reset(seed=4)
    assert (observation.dtype, observation.shape) == (spec.dtype, (3, *spec.shape))
    assert observation.flags.c_contiguous
    for index in range(3):
        space = env.unwrapped.single_observation_space
        space.seed(4 + index)
        own = space.sample()
        if senses == "choices":
            own = np.concatenate([own[0] == np.arange(2), own[1] == np.arange(4, 7)])
        elif senses == "channels first":
            own = np.stack(own, axis=-1)
        elif senses == "gray":
            own = own[..., None]
        np.testing.assert_array_equal(observation[index], own)


def test_a_choice_is_one_hot(make):
    env = make(Gym("FrozenLake-v1", options='{"is_slippery": false}'), 1)
    observation, _ = env.reset(seed=0)
    assert np.flatnonzero(observation[0]).tolist() == [0]
    down, right = 1, 2
    for action, field in ((right, 1), (right, 2), (down, 6)):
        observation, *_ = env.step(np.array([action], np.int32))
        assert observation.dtype == bool
        assert np.flatnonzero(observation[0]).tolist() == [field]


@pytest.mark.parametrize(
    ("levers", "spec", "actions", "taken"),
    [
        ("choices", MultiDiscreteSpec((2, 3)), [[0, 2], [1, 0]], [[0, 2], [1, 0]]),
        (
            "table of choices",
            MultiDiscreteSpec((2, 3, 4, 5)),
            [[0, 0, 0, 0], [1, 2, 3, 4]],
            [[1, -1, 0, 7], [2, 1, 3, 11]],
        ),
        ("from three", DiscreteSpec(4), [0, 3], [[3], [6]]),
        ("bits", MultiDiscreteSpec((2, 2, 2)), [[0, 1, 1], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]]),
        ("bytes", MultiDiscreteSpec((256, 256)), [[0, 255], [128, 7]], [[0, 255], [128, 7]]),
        ("signed bytes", MultiDiscreteSpec((256, 256)), [[0, 255], [128, 7]], [[-128, 127], [0, -121]]),
        ("vector", ContinuousSpec((-1.0, 0.0), (1.0, 5.0)), [[-1, 5], [0.5, 0]], [[-1, 5], [0.5, 0]]),
        ("number", ContinuousSpec((-2.0,), (3.0,)), [[-2], [2.5]], [[-2], [2.5]]),
    ],
)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_actions_reach_the_environment_as_its_own(make, vectorization, levers, spec, actions, taken):
    config = echo(levers=levers, vectorization=vectorization)
    assert config.spec().action == spec
    env = make(config, 2)
    env.reset(seed=1)
    *_, info = env.step(np.array(actions, spec.tensor.dtype))
    np.testing.assert_array_equal(taken_of(info, env)[:, : len(taken[0])], taken)


def taken_of(info, env):
    """What both environments took; where an episode ended, Gymnasium keeps it apart."""
    if "final_info" not in info:
        return info["taken"]
    ended = info["_final_info"]
    return np.where(ended[:, None], info["final_info"]["taken"], info.get("taken", np.zeros((env.num_envs, 4))))


def test_bounds_that_float32_rounds_outwards_are_kept(make):
    """-0.1 and 0.7 lie between two float32 numbers; the nearest ones may be outside of a space of doubles."""
    config = echo(levers="matrix of doubles")
    low, high = float(np.float32(-0.1)), float(np.float32(0.7))
    assert low < -0.1
    assert config.spec().action == ContinuousSpec((low,) * 4, (high,) * 4)
    env = make(config, 2)
    env.reset(seed=1)
    *_, info = env.step(np.array([[low] * 4, [high, 0.25, low, high]], np.float32))
    np.testing.assert_allclose(taken_of(info, env), [[-0.1] * 4, [0.7, 0.25, -0.1, 0.7]], rtol=1e-7)


@pytest.mark.parametrize(
    ("senses", "message"),
    [
        ("text", r"Echo-v0: observations must be Box, .*, or Dict or Tuple of those, got Text\("),
        ("text inside", r"observation b must be Box, .*, or Dict or Tuple of those, got Text\("),
        ("same names", r"each part of an observation needs its own path, got Dict\("),
    ],
)
def test_observations_that_cannot_be_sent_are_named(senses, message):
    for build in (echo(senses).spec, lambda: echo(senses).make(2)):
        with pytest.raises(CannotBuild, match=message):
            build()


@pytest.mark.parametrize(
    ("levers", "message"),
    [
        ("unbounded", r"Echo-v0: a Box of actions must be of numbers and bounded on all sides, got Box\(-inf, 1.0"),
        ("integers", r"a Box of whole-numbered actions may have 1000 values each, got Box\(0, 1000, \(2,\), int32\)"),
        ("one value", "continuous actions need finite bounds, the lower one smaller, got 1.0 and 1.0"),
        ("text", r"actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, got Text\("),
        ("pair", r"actions must be Discrete, .* got Tuple\(Discrete\(2\), Discrete\(3\)\)"),
    ],
)
def test_actions_that_cannot_be_sent_are_named(levers, message):
    with pytest.raises(CannotBuild, match=message):
        echo(levers=levers).make(2)


def test_what_cannot_be_sent_is_closed_again(monkeypatch):
    closed = []
    monkeypatch.setattr(SyncVectorEnv, "close_extras", lambda self, **_: closed.append(self))
    for config in (echo("text"), Gym("registered_envs:CountedDisabled-v0", vectorization="vector_entry_point")):
        with pytest.raises(CannotBuild):
            config.make(2)
    assert len(closed) == 2


def test_flattening_leaves_what_is_flat_alone():
    inner = Scripted()
    env = FlatVectorEnv(inner)
    assert env.single_observation_space == inner.single_observation_space
    assert env.single_action_space == inner.single_action_space
    assert env.observation_space == inner.observation_space
    assert env.action_space == inner.action_space


# Settings.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"id": "Nope-v1"}, "Nope-v1 can't be made: Environment `Nope` doesn't exist"),
        ({"id": "CartPole-v77"}, "CartPole-v77 can't be made: .*version `v77` .* doesn't exist"),
        ({"id": "two words"}, "two words can't be made: Malformed environment ID"),
        ({"id": "no_such_module:CartPole-v1"}, "no_such_module:CartPole-v1 can't be made: No module named 'no_such"),
        (
            {"id": "Pendulum-v1", "vectorization": "vector_entry_point"},
            "Pendulum-v1 can't be made: .* vector entry point",
        ),
        ({"id": "registered_envs:CountedNext-v0"}, "CountedNext-v0 can't be made: .* doesn't have an entry point"),
        ({"id": "CartPole-v1", "options": '{"wheels": 4}'}, "CartPole-v1 can't be made: .* argument 'wheels'"),
        (
            {"id": "CartPole-v1", "options": '{"wheels": 4}', "vectorization": "async"},
            "CartPole-v1 can't be made: .* argument 'wheels'",
        ),
        (
            {"id": "CartPole-v1", "options": '{"num_envs": 4}'},
            "CartPole-v1 can't be made: .* multiple values for argument 'num_envs'",
        ),
        ({"id": "FrozenLake-v1", "options": '{"map_name": "3x3"}'}, "FrozenLake-v1 can't be made: KeyError\\('3x3'"),
    ],
    ids=str,
)
def test_environments_that_cannot_be_made_are_named(settings, message):
    config = Gym(**settings)
    for build in (config.spec, lambda: config.make(2)):
        with pytest.raises(CannotBuild, match=message):
            build()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"vectorization": "threads"},
            "Gym.vectorization must be one of sync, async, vector_entry_point, got 'threads'",
        ),
        ({"frames_per_step": 0}, "Gym.frames_per_step must be at least 1, got 0"),
        ({"frames_per_step": 2.5}, "Gym.frames_per_step must be int, got 2.5"),
        ({"id": 7}, "Gym.id must be str, got 7"),
        ({"envpool": 1}, "Gym.envpool must be bool, got 1"),
        ({"options": '{"g": '}, r"""Gym.options must be a JSON object, got '{"g": ': Expecting value"""),
        ({"options": "{'g': 1}"}, r"Gym.options must be a JSON object, got .*: Expecting property name"),
        ({"options": ""}, "Gym.options must be a JSON object, got '': Expecting value"),
        ({"options": "[1, 2]"}, r"Gym.options must be a JSON object, got '\[1, 2\]'"),
        ({"options": "null"}, "Gym.options must be a JSON object, got 'null'"),
        ({"id_": "CartPole-v1"}, "suite 'gym' has no option id_"),
    ],
    ids=str,
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        registry.from_description(EnvDescription("gym", settings))
