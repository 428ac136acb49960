"""The actor's loop with a fake client."""

import contextlib
import itertools
import re
import statistics
import sys
import threading
import traceback
import types

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from seed_rl.actor.loop import Actor, growing_delays
from seed_rl.envs import registry
from seed_rl.specs import ActorSettings, EnvDescription, GroupLease, Lease
from seed_rl.transport.client import Disconnected, Rejected, RunOver
from tests.support.counting import Counting, CountingVectorEnv


class Fragile(CountingVectorEnv):
    """Counting environments that fail when closed, or at the third step in the group with seed 1."""

    def step(self, actions):
        if self._counters[0, 0] % 2 and self._counters[0, 3] == 2:
            raise OSError("the game crashed")
        return super().step(actions)

    def close(self, **kwargs):
        raise RuntimeError("stuck")


class Unmakable(CountingVectorEnv):
    def __init__(self, *arguments):
        raise KeyError("assets")


class Unresettable(CountingVectorEnv):
    def reset(self, *, seed=None, options=None):
        raise IndexError("out of\n  range")


class Late(CountingVectorEnv):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}


def suite_of(env):
    """Registers a suite of such environments; returns its name."""

    class Suite(Counting):
        suite = env.__name__.lower()

        def make(self, num_envs):
            return env(num_envs, self.shortest_episode)

    return registry.register(Suite).suite


class Stream:
    """Answers with zeros until its client is closed."""

    def __init__(self, client, error):
        self._client = client
        self.outputs = []
        self._error = error

    def step(self, output, numbers):
        self.outputs.append(output)
        self._client.stepped.set()
        if self._client.closed.wait(0.001):
            raise self._error
        return np.zeros(len(output.reward), np.int32)

    def close(self):
        pass


class Client:
    """A learner that wants two groups, with environment seeds 0 and 1."""

    def __init__(self, suite, refuse=None, **options):
        self._suite = suite
        self._options = options
        self._refuse = refuse
        self.closed, self.stepped = threading.Event(), threading.Event()
        self.joined, self.streams = [], {}
        self.hears_of_the_end = None

    def describe(self, timeout):
        return ActorSettings(EnvDescription(self._suite, self._options), num_groups=2, envs_per_group=3)

    def join(self, run_id, env_spec, group_sizes, timeout):
        if self._refuse is not None:
            raise self._refuse
        self.joined.append((run_id, group_sizes))
        begin = np.cumsum([0, *group_sizes])
        ids = [tuple(range(b, b + n)) for b, n in zip(begin, group_sizes, strict=False)]
        return Lease("session", tuple(GroupLease(group, seed) for seed, group in enumerate(ids)))

    def open(self, lease, group, env_spec):
        self.streams[group] = Stream(
            self, RunOver("over") if group == self.hears_of_the_end else Disconnected("closed")
        )
        return self.streams[group]

    def close(self):
        self.closed.set()


def test_an_error_in_any_group_ends_the_actor_with_a_sentence_and_a_traceback_in_the_log(caplog):
    sentence = "an environment of suite 'fragile' failed in step: OSError: the game crashed"
    sentence += r' \(loop_test.py, line \d+: raise OSError\("the game crashed"\)\)'
    with pytest.raises(registry.EnvironmentFailed, match=f"^{sentence}$"):
        Actor(lambda: Client(suite_of(Fragile))).run()
    (logged,) = [record for record in caplog.records if record.exc_info]
    assert re.fullmatch(sentence, logged.message)
    assert "raise OSError" in "".join(traceback.format_exception(*logged.exc_info))
    assert "an environment could not be closed: RuntimeError('stuck')" in caplog.text


@pytest.mark.parametrize(
    ("env", "kind", "failure"),
    [
        (Unmakable, registry.CannotBuild, "make: KeyError: 'assets'"),  # which ends the run
        (Unresettable, registry.EnvironmentFailed, "reset: IndexError: out of range"),
    ],
)
def test_an_error_before_the_first_step_ends_the_actor_too(env, kind, failure):
    suite = suite_of(env)
    with pytest.raises(kind, match=f"^an environment of suite '{suite}' failed in {failure} "):
        Actor(lambda: Client(suite)).run()


def test_a_refusal_ends_the_actor():
    with pytest.raises(Rejected, match="other spaces"):
        Actor(lambda: Client(suite_of(CountingVectorEnv), Rejected("other spaces"))).run()


def test_environments_that_reset_in_another_step_are_refused():
    with pytest.raises(registry.CannotBuild, match=r"but those of suite 'late' declare .*NEXT_STEP"):
        Actor(lambda: Client(suite_of(Late))).run()


@pytest.mark.parametrize(
    "options",
    [
        {"id": "working_directory:Game-v0"},
        {"id": "GymV26Environment-v0", "options": '{"env_id": "working_directory:Game-v0"}'},
        {"id": "CartPole-v1", "wrappers": ("working_directory:Wrapper",)},
    ],
)
def test_a_module_that_a_learner_names_is_not_imported_unless_the_actor_was_started_with_it(
    options, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "working_directory.py").write_text(f"open({str(tmp_path / 'was here')!r}, 'w')")
    actor = Actor(lambda: Client("gym", **options))
    with pytest.raises(registry.CannotBuild, match="may not import; --import_module=working_directory permits it"):
        actor.run()
    assert not (tmp_path / "was here").exists()
    monkeypatch.setitem(sys.modules, "working_directory", types.ModuleType("working_directory"))
    with pytest.raises(registry.CannotBuild, match="can't be made"):
        actor.run()


@contextlib.contextmanager
def running(actor):
    """The actor runs meanwhile, in a thread."""
    run = threading.Thread(target=actor.run)
    run.start()
    try:
        yield
    finally:
        actor.stop()
        run.join(30)
    assert not run.is_alive()


def test_an_actors_own_sizes_win_over_the_learners():
    client = Client(suite_of(CountingVectorEnv))
    with running(Actor(lambda: client, num_groups=3, envs_per_group=2)):
        assert client.stepped.wait(30)
    assert client.joined[0][1] == [2, 2, 2]


def test_a_lost_learner_is_joined_again_with_another_run_id_and_fresh_environments():
    clients = [Client(suite_of(CountingVectorEnv)) for _ in range(3)]
    waiting = iter(clients)
    with running(Actor(lambda: next(waiting), delays=lambda: itertools.repeat(0.001))):
        for client in clients[:2]:
            assert client.stepped.wait(30)
            client.close()  # the connection is lost
        assert clients[2].stepped.wait(30)
    assert len({client.joined[0][0] for client in clients}) == 3
    for client in clients:
        first = client.streams[0].outputs[0]
        assert first.done.all()
        assert (first.observation[:, 1:] == 0).all(), "every run begins with a reset"
        assert (first.reward == 0).all()


def test_a_run_that_is_over_ends_the_actor_whichever_group_hears_of_it():
    for heard in (0, 1):
        client = Client(suite_of(CountingVectorEnv))
        client.hears_of_the_end = heard
        run = threading.Thread(target=Actor(lambda client=client: client).run)
        run.start()
        assert client.stepped.wait(30)
        client.close()
        run.join(30)
        assert not run.is_alive()
        assert len(client.joined) == 1


def test_delays_double_up_to_the_cap_and_are_jittered():
    rows = zip(*(growing_delays(first=0.5, cap=5.0) for _ in range(200)), strict=True)
    for bound, delays in zip([0.5, 1.0, 2.0, 4.0, 5.0, 5.0], rows, strict=False):
        assert bound / 2 <= min(delays) <= max(delays) <= bound
        assert statistics.stdev(delays) > bound / 20
