"""The actor's loop with a fake client."""

import contextlib
import itertools
import re
import statistics
import sys
import threading
import time
import traceback
import types
from unittest.mock import Mock

import numpy as np
import pytest

from seed_rl.actor import loop
from seed_rl.actor.loop import Actor, growing_delays
from seed_rl.actor.watch import Watch
from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.specs import ActorSettings, EnvDescription, GroupLease, Lease
from seed_rl.transport.client import Disconnected, Rejected, RunOver
from tests.support import counting
from tests.support.counting import CountingVectorEnv
from tests.support.deadlines import within


class Fragile(CountingVectorEnv):
    """Counting environments that fail when closed, or at the third step in the group with seed 1."""

    def step(self, actions):
        if self._counters[0, 0] % 2 and self._counters[0, 3] == 2:
            raise OSError("the game crashed")
        return super().step(actions)

    def close(self, **kwargs):
        raise RuntimeError("stuck")


class Client:
    """A learner that wants two groups, with environment seeds 0 and 1, and answers with zeros until it is closed."""

    def __init__(self, suite="counting", **options):
        self._env = EnvDescription(suite, options)
        self.closed, self.stepped = threading.Event(), threading.Event()
        self.joined, self.outputs = [], {}
        self.is_over, self.eval_env, self.first_ids = False, None, (0, 3, 6)

    def describe(self, timeout):
        return ActorSettings(self._env, 2, 3, eval_env=self.eval_env, first_eval_id=3)

    def join(self, run_id, env_spec, group_sizes, timeout):
        self.joined.append((run_id, group_sizes))
        ids = (tuple(range(first, first + n)) for first, n in zip(self.first_ids, group_sizes, strict=False))
        return Lease("session", tuple(GroupLease(own, seed) for seed, own in enumerate(ids)))

    def open(self, lease, group, env_spec):
        outputs = self.outputs[group] = []

        def step(output, numbers):
            outputs.append(output)
            self.stepped.set()
            if self.closed.wait(0.001):
                raise RunOver("over") if self.is_over and group == 1 else Disconnected("closed")
            return np.zeros(len(output.reward), np.int32)

        return types.SimpleNamespace(step=step, close=lambda: None)

    def close(self):
        self.closed.set()


def test_an_error_in_any_group_ends_the_actor_with_a_sentence_and_a_traceback_in_the_log(monkeypatch, caplog):
    monkeypatch.setattr(counting, "CountingVectorEnv", Fragile)
    sentence = "an environment of suite 'counting' failed in step: OSError: the game crashed"
    sentence += r' \(loop_test.py, line \d+: raise OSError\("the game crashed"\)\)'
    with pytest.raises(EnvironmentFailed, match=f"^{sentence}$"):
        Actor(Client).run()
    (logged,) = [record for record in caplog.records if record.exc_info]
    assert re.fullmatch(sentence, logged.message)
    assert "raise OSError" in "".join(traceback.format_exception(*logged.exc_info))
    assert "an environment could not be closed: RuntimeError('stuck')" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "kind", "word"),
    [
        ("__init__", Mock(side_effect=KeyError("assets")), CannotBuild, "make: KeyError: 'assets'"),  # ends the run
        ("reset", Mock(side_effect=IndexError("odd\n  range")), EnvironmentFailed, "reset: IndexError: odd range"),
        ("metadata", property(lambda own: {}, lambda own, declared: None), CannotBuild, "autoreset mode None"),
    ],
)
def test_an_error_before_the_first_step_ends_the_actor_too(name, value, kind, word, monkeypatch):
    monkeypatch.setattr(CountingVectorEnv, name, value)
    with pytest.raises(kind, match=word):
        Actor(Client).run()


@pytest.mark.parametrize(("what", "limit"), [("make", 0.02), ("step", 0.2), ("close", 0.2)])
def test_a_group_that_hangs_is_named_again_and_again(what, limit, monkeypatch, caplog):
    released, named, daemons = threading.Event(), [], set()
    stepped = threading.Event()

    class Stuck(CountingVectorEnv):
        def __init__(self, *arguments):
            assert what != "make" or released.wait(within(60))
            super().__init__(*arguments)

        def step(self, actions):
            assert what != "step" or not self._counters[0, 0] % 2 or released.wait(within(60))
            stepped.set()
            return super().step(actions)

        def close(self, **kwargs):
            assert what != "close" or released.wait(within(60))

    def on_hang(sentence):
        named.append(sentence)
        daemons.update(thread.daemon for thread in threading.enumerate() if thread.name == "group")
        if len(named) == 2:
            released.set()

    monkeypatch.setattr(counting, "CountingVectorEnv", Stuck)
    with running(Actor(Client, name="actor 7", hang_timeout=limit, on_hang=on_hang)):
        assert (stepped if what == "close" else released).wait(within(60))
    sentence = f"actor 7: a group of environments has not returned from {what} for "
    assert caplog.text.count(sentence) >= 2
    assert all(each.startswith(sentence) for each in named[:2])
    if what != "close":
        assert daemons == {True}, "the program could have ended"


def test_a_call_of_many_looks_is_not_named_before_the_limit():
    sentences = []
    watch = Watch("", within(1), sentences.append)
    watch.start()
    for what in ("step", "reset"):
        watch.call(what, time.sleep, 0.5)
    watch.stop()
    assert sentences == []


def test_a_refusal_ends_the_actor(monkeypatch):
    monkeypatch.setattr(Client, "join", Mock(side_effect=Rejected("other spaces")))
    with pytest.raises(Rejected):
        Actor(Client).run()


def test_a_module_that_a_learner_names_is_not_imported_unless_the_actor_was_started_with_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "working_directory.py").write_text(f"open({str(tmp_path / 'was here')!r}, 'w')")
    actor = Actor(lambda: Client("gym", id="working_directory:Game-v0"))
    with pytest.raises(CannotBuild, match="may not import; --import_module=working_directory permits it"):
        actor.run()
    assert not (tmp_path / "was here").exists()
    monkeypatch.setitem(sys.modules, "working_directory", types.ModuleType("working_directory"))
    with pytest.raises(CannotBuild, match="can't be made"):
        actor.run()


@contextlib.contextmanager
def running(actor):
    """The actor runs meanwhile, in a thread, and ends by itself or when it is stopped."""
    run = threading.Thread(target=actor.run)
    run.start()
    try:
        yield run
    finally:
        actor.stop()
        run.join(within(30))
    assert not run.is_alive()


def test_a_lost_learner_is_joined_again_and_groups_that_evaluate_keep_environments_of_their_own(monkeypatch):
    monkeypatch.setattr(loop, "growing_delays", lambda cap: itertools.repeat(0.001))
    clients = [Client(shortest_episode=4) for _ in range(3)]
    for client, first_ids in zip(clients, [(0, 3), (0, 3), (3, 0)], strict=True):
        client.eval_env, client.first_ids = EnvDescription("counting", {"shortest_episode": 1}), first_ids
    made, waiting = [], iter(clients)
    make = counting.Counting.make
    monkeypatch.setattr(counting.Counting, "make", lambda own, n: made.append(own.shortest_episode) or make(own, n))
    with running(Actor(lambda: next(waiting))):
        for client, evaluates, built in zip(clients, (1, 1, 0), ([4, 4, 1], [], [1, 4]), strict=True):
            while len(client.outputs) < 2 or min(map(len, client.outputs.values())) < 4:
                assert client.stepped.wait(within(30))
            ends = [[bool(output.done[0]) for output in client.outputs[group][:4]] for group in (0, 1)]
            assert ends[evaluates] != ends[1 - evaluates] == [True, False, False, False]
            assert made == built
            for first, *_ in client.outputs.values():
                assert first.done.all()
                assert not first.observation[:, 1:].any(), "every run begins with a reset"
                assert not first.reward.any()
            made.clear()
            client.close()  # the connection is lost
    assert len({client.joined[0][0] for client in clients}) == 3, "each under another name"


def test_a_run_that_is_over_ends_the_actor_even_if_only_its_second_group_hears_of_it():
    client = Client()
    client.is_over = True
    with running(Actor(lambda: client, run_id="mine", num_groups=3, envs_per_group=2)) as run:
        assert client.stepped.wait(within(30))
        client.close()
        run.join(within(30))
        assert not run.is_alive()
    assert client.joined == [("mine", [2, 2, 2])], "once, with its own name and sizes"


def test_delays_double_up_to_the_cap_and_are_jittered():
    rows = zip(*(growing_delays(cap=5.0) for _ in range(200)), strict=True)
    for bound, delays in zip([0.5, 1.0, 2.0, 4.0, 5.0, 5.0], rows, strict=False):
        assert bound / 2 <= min(delays) <= max(delays) <= bound
        assert statistics.stdev(delays) > bound / 20
