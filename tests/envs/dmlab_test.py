"""DeepMind Lab through the strict stand-in and, where it is installed, through the real simulator as well."""

import importlib.util
import pathlib
import sys

import numpy as np
import pytest

from seed_rl.envs import registry
from seed_rl.envs.base import spec_of
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import CONTROLS, DEFAULT_ACTIONS, HELD_OUT_MIXER_SEED, DMLab, DMLabEnv
from seed_rl.envs.dmlab_levels import DMLAB30, TEST_TWINS, path_of
from seed_rl.envs.registry import CannotBuild
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from tests.support import fake_deepmind_lab

IMPLEMENTATIONS = ["fake", *(["real"] if importlib.util.find_spec("deepmind_lab") else [])]

PREBUILT = "seekavoid_arena_01"  # nothing to compile
COMPILING = "explore_goal_locations_small"
FORWARD, BACKWARD, FIRE = 0, 1, 8

registry.register(DMLab)


def use_fake(directory, monkeypatch):
    """Makes `import deepmind_lab` find the stand-in, in spawned processes too: they take over `sys.path`."""
    monkeypatch.syspath_prepend(fake_deepmind_lab.install(directory))
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    monkeypatch.setattr(fake_deepmind_lab, "runfiles_path", "")
    monkeypatch.setattr(fake_deepmind_lab, "compiled", [])


@pytest.fixture(params=IMPLEMENTATIONS)
def simulator(request, tmp_path, monkeypatch):
    """Which `deepmind_lab` there is."""
    if request.param == "fake":
        use_fake(tmp_path, monkeypatch)
        yield request.param
        sys.modules.pop("deepmind_lab", None)
    else:
        yield request.param


@pytest.fixture
def fake(tmp_path, monkeypatch):
    use_fake(tmp_path, monkeypatch)
    yield fake_deepmind_lab
    sys.modules.pop("deepmind_lab", None)


@pytest.fixture
def make_env(simulator):
    made = []

    def make(**settings):
        made.append(DMLabEnv(DMLab(**{"level": PREBUILT, **settings})))
        return made[-1]

    yield make
    for env in made:
        env.close()


def test_conformance(simulator):
    check_suite(DMLab(level=PREBUILT, num_action_repeats=60), steps=70)


def test_frames_are_as_the_spec_says(make_env):
    env = make_env(width=32, height=24)
    frame, info = env.reset(seed=1)
    assert (frame.shape, frame.dtype, info) == ((24, 32, 3), np.uint8, {})
    assert DMLab(width=32, height=24).spec() == EnvSpec(ArraySpec((24, 32, 3), "uint8"), DiscreteSpec(9))


def test_the_last_frame_is_shown_again_at_the_end(make_env):
    env = make_env(num_action_repeats=100)
    env.reset(seed=1)
    terminated, steps = False, 0
    while not terminated:
        before = env._frame
        frame, reward, terminated, truncated, _ = env.step(FORWARD)
        assert type(reward) is float
        assert not truncated
        steps += 1
        assert steps < 1000
    assert np.array_equal(frame, before)
    with pytest.raises(RuntimeError, match=f"level {PREBUILT} has no episode under way: reset it"):
        env.step(FORWARD)
    assert env.reset()[0].shape == frame.shape


def test_episodes_follow_from_the_seed_of_the_first(make_env):
    def first_frames(seed):
        env = make_env()
        return [env.reset(seed=seed)[0], *[env.reset()[0] for _ in range(2)]]

    one, again, other = first_frames(1), first_frames(1), first_frames(2)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_same_seed_gives_the_same_episode_again(make_env):
    env = make_env()
    first, again = (env.reset(seed=3)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("seed", [None, 0, np.int64(7), 2**40])
def test_any_seed_will_do(seed, make_env):
    env = make_env()
    env.reset(seed=seed)
    env.reset()


def test_a_closed_environment_raises_and_the_process_lives(make_env):
    env = make_env()
    env.reset(seed=1)
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(FORWARD)):
        with pytest.raises(RuntimeError, match=f"level {PREBUILT} is closed"):
            call()
    assert env.observation_space.shape == (72, 96, 3)
    unused = make_env()
    unused.close()


def test_an_unknown_level_is_refused_by_the_actor_in_a_sentence(simulator):
    with pytest.raises(CannotBuild, match="DeepMind Lab level no/such_level can't be started: .*not found"):
        DMLab(level="no/such_level").make(2)


def test_maps_are_compiled_once_for_all_processes(simulator, tmp_path):
    cache = tmp_path / "cache"
    config = DMLab(level=COMPILING, level_cache=str(cache))

    def play():
        env = config.make(2)
        try:
            frames, _ = env.reset(seed=1)
        finally:
            env.close()
        return frames, {path: path.stat().st_mtime_ns for path in cache.rglob("*.pk3")}

    (compiled_frames, written), (cached_frames, kept) = play(), play()
    assert written
    assert kept == written
    assert np.array_equal(compiled_frames, cached_frames)


def test_held_out_levels_are_different_ones(simulator):
    frames = []
    for held_out in (False, True):
        env = DMLabEnv(DMLab(level=COMPILING, held_out=held_out))
        frames.append(env.reset(seed=1)[0])
        env.close()
    assert not np.array_equal(*frames)


if "real" in IMPLEMENTATIONS:

    @pytest.mark.parametrize("name", sorted({*DMLAB30, *TEST_TWINS.values()}))
    def test_the_simulator_has_every_level(name):
        package = pathlib.Path(importlib.util.find_spec("deepmind_lab").origin).parent
        assert list(package.rglob(f"{path_of(name)}.lua"))


# What only the stand-in can tell.


def spy(env):
    """Records the raw actions and the numbers of frames that the simulator is given."""
    calls, step = [], env._lab.step

    def recording(action, num_steps=1):
        calls.append((action, num_steps))
        return step(action, num_steps=num_steps)

    env._lab.step = recording
    return calls


def test_raw_actions_are_new_arrays(fake):
    env = DMLabEnv(DMLab(level=PREBUILT, num_action_repeats=3))
    env.reset(seed=1)
    calls = spy(env)
    for action in (*range(9), np.int32(0)):
        env.step(action)
    raw = [action.tolist() for action, _ in calls]
    assert [number for action in raw[:9] for number in action] == list(DEFAULT_ACTIONS)
    assert raw[9] == raw[0]
    assert not np.shares_memory(calls[9][0], calls[0][0])
    for action, num_steps in calls:
        assert (action.dtype, action.shape, num_steps) == (np.intc, (7,), 3)
        assert action.flags.c_contiguous
        assert action.flags.owndata


def test_rewards_are_those_of_all_frames(fake):
    env = DMLabEnv(DMLab(level="lt_chasm", num_action_repeats=4))  # 18 frames
    env.reset(seed=1)
    assert [env.step(FORWARD)[1], env.step(BACKWARD)[1], env.step(FIRE)[1]] == [1.0, -1.0, 4.0]
    env.step(FIRE)
    assert env.step(FIRE)[1:4] == (2.0, True, False)


def test_a_frame_is_rendered_once_per_step(fake):
    env = DMLabEnv(DMLab(level="lt_chasm", num_action_repeats=6))
    env.reset(seed=1)
    for _ in range(3):
        *_, terminated, _, _ = env.step(FORWARD)
    assert terminated
    assert env._lab.renderings == 3  # of the reset and two steps; the end can't be seen


def test_the_simulator_gets_strings_only(fake, monkeypatch):
    given = {}

    def lab(level, observations, **arguments):
        given.update(arguments, level=level, observations=observations)
        return fake.Lab(level, observations, **arguments)

    import deepmind_lab

    monkeypatch.setattr(deepmind_lab, "Lab", lab)
    DMLabEnv(DMLab(level="rooms_watermaze"))
    assert given == {
        "level": "contributed/dmlab30/rooms_watermaze",
        "observations": ["RGB_INTERLEAVED"],
        "config": {"width": "96", "height": "72"},
        "renderer": "software",
    }
    DMLabEnv(DMLab(level="psychlab_continuous_recognition", held_out=True, dataset_path="/pictures", level_cache="/c"))
    assert given["config"] == {
        "width": "96",
        "height": "72",
        "allowHoldOutLevels": "true",
        "mixerSeed": "1611489005",
        "datasetPath": "/pictures",
    }
    assert hasattr(given["level_cache"], "fetch")
    assert 0 <= HELD_OUT_MIXER_SEED < 2**32


def test_the_runfiles_are_looked_for_where_they_are(fake, tmp_path):
    DMLabEnv(DMLab(level=PREBUILT, runfiles_path=str(tmp_path)))
    assert fake.runfiles_path == str(tmp_path)
    with pytest.raises(CannotBuild, match="can't be started: .*runfiles"):
        DMLabEnv(DMLab(level=PREBUILT, runfiles_path="/nowhere/at/all"))


def test_what_goes_wrong_in_an_episode_names_the_level(fake):
    env = DMLabEnv(DMLab(level="lt_chasm"))

    def fail(*args, **kwargs):
        raise RuntimeError("out of polygons")

    env._lab.reset = fail
    with pytest.raises(RuntimeError, match="level lt_chasm can't be reset with seed 5: out of polygons"):
        env.reset(seed=5)
    del env._lab.reset
    env.reset(seed=5)
    env._lab.observations = fail
    with pytest.raises(RuntimeError, match="level lt_chasm can't be stepped: out of polygons"):
        env.step(FORWARD)


@pytest.mark.parametrize("error", [KeyError("no such key"), KeyboardInterrupt()])
def test_an_error_behind_a_systemerror_is_brought_forward(fake, monkeypatch, error):
    class Broken:
        def fetch(self, key, pk3_path):
            raise error

    monkeypatch.setattr("seed_rl.envs.dmlab.open_cache", lambda location: Broken())
    config = DMLab(level="skymaze_irreversible_path_hard", level_cache="/somewhere")
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            DMLabEnv(config)
    else:
        with pytest.raises(CannotBuild, match="skymaze_irreversible_path_hard can't be started: KeyError.*no such key"):
            DMLabEnv(config)


def test_without_the_package_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)
    with pytest.raises(CannotBuild, match="deepmind_lab is not installed here.*docker/.*Bazel"):
        DMLabEnv(DMLab())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotBuild, match="deepmind_lab is not installed here.*docker/.*Bazel"):
        DMLab().make(1)


def test_a_package_that_does_not_load_is_told_from_one_that_is_missing(tmp_path, monkeypatch):
    (tmp_path / "deepmind_lab.py").write_text("raise ImportError('libOSMesa.so.8: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    with pytest.raises(CannotBuild, match="deepmind_lab can't be loaded: libOSMesa.so.8"):
        DMLab().make(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "psychlab_continuous_recognition"}, "DMLab.dataset_path must name .* pictures that contributed/"),
        ({"level": "contributed/psychlab/continuous_recognition"}, "DMLab.dataset_path must name"),
        ({"dataset_path": "/nowhere/at/all"}, "DMLab.dataset_path: there is no directory /nowhere/at/all"),
        ({"runfiles_path": "/nowhere/at/all"}, "DMLab.runfiles_path: there is no directory /nowhere/at/all"),
        ({"level_cache": "nowhere://cache"}, "level cache nowhere://cache"),
    ],
)
def test_what_a_machine_lacks_is_told_before_anything_starts(fake, settings, message):
    with pytest.raises(CannotBuild, match=message):
        DMLab(**settings).make(2)


def test_actions_can_be_chosen(fake):
    config = DMLab(level=PREBUILT, action_set=(0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 1, 0, 1))
    assert config.actions == [(0, 0, 0, 1, 0, 0, 0), (0, 5, 0, 0, 1, 0, 1)]
    assert len(DMLab().actions) == 9
    assert all(len(action) == len(CONTROLS) for action in DMLab().actions)
    env = DMLabEnv(config)
    env.reset(seed=1)
    calls = spy(env)
    env.step(1)
    assert calls[0][0].tolist() == [0, 5, 0, 0, 1, 0, 1]


def test_each_environment_runs_in_a_process_of_its_own(simulator):
    config = DMLab(level=PREBUILT)
    env = config.make(2)
    try:
        assert spec_of(env) == config.spec()
        assert config.action_repeat == 4
        first, _ = env.reset(seed=1)
        assert not np.array_equal(first[0], first[1])
        alone = DMLabEnv(config)
        assert np.array_equal(alone.reset(seed=2)[0], first[1])
        alone.close()
    finally:
        env.close()
