"""The actor's loop with a learner that is played by the test."""

import dataclasses
import threading
import traceback
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from seed_rl.actor.loop import Actor, Sizes
from seed_rl.envs import registry
from seed_rl.specs import ActorSettings, EnvDescription, GroupLease, Lease
from seed_rl.transport.client import Disconnected, Rejected
from tests.support.counting import Counting, CountingVectorEnv


@registry.register
@dataclasses.dataclass(frozen=True)
class Fragile(Counting):
    """Counting, but the environments whose seed is odd break at their third step."""

    suite: ClassVar[str] = "fragile"

    def make(self, num_envs):
        return FragileVectorEnv(num_envs, self.shortest_episode)


@registry.register
@dataclasses.dataclass(frozen=True)
class Unmakable(Counting):
    """Counting that fails before its first step."""

    suite: ClassVar[str] = "unmakable"

    def make(self, num_envs):
        raise KeyError("assets")


@registry.register
@dataclasses.dataclass(frozen=True)
class Unresettable(Counting):
    """Counting that fails before its first step, in many words."""

    suite: ClassVar[str] = "unresettable"

    def make(self, num_envs):
        env = super().make(num_envs)
        env.reset = lambda seed: [][seed]
        return env


class FragileVectorEnv(CountingVectorEnv):
    def step(self, actions):
        if self._counters[0, 0] % 2 and self._counters[0, 3] == 2:
            raise OSError("the game crashed")
        return super().step(actions)


@registry.register
@dataclasses.dataclass(frozen=True)
class Late(Counting):
    """Counting, but the environments say that they reset in the step after the end of an episode."""

    suite: ClassVar[str] = "late"

    def make(self, num_envs):
        env = super().make(num_envs)
        env.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        return env


class Stream:
    """Answers with zeros until its client is closed."""

    def __init__(self, client):
        self._client = client
        self.outputs = []

    def step(self, output):
        self.outputs.append(output)
        self._client.stepped.set()
        if self._client.closed.wait(0.001):
            raise Disconnected("closed")
        return np.zeros(len(output.reward), np.int32)

    def close(self):
        pass


class Client:
    """A learner that wants two groups, with environment seeds 0 and 1."""

    def __init__(self, suite, refuse=None):
        self._suite = suite
        self._refuse = refuse
        self.closed, self.stepped = threading.Event(), threading.Event()
        self.joined, self.streams = [], {}

    def describe(self, timeout):
        return ActorSettings(EnvDescription(self._suite), num_groups=2, envs_per_group=3)

    def join(self, run_id, env_spec, group_sizes, timeout):
        if self._refuse is not None:
            raise self._refuse
        self.joined.append((run_id, group_sizes))
        begin = np.cumsum([0, *group_sizes])
        ids = [tuple(range(b, b + n)) for b, n in zip(begin, group_sizes, strict=False)]
        return Lease("session", tuple(GroupLease(group, seed) for seed, group in enumerate(ids)))

    def open(self, lease, group, env_spec):
        self.streams[group] = Stream(self)
        return self.streams[group]

    def close(self):
        self.closed.set()


def test_an_error_in_any_group_ends_the_actor_with_a_sentence_and_the_log_says_where(caplog):
    actor = Actor(lambda: Client("fragile"))
    sentence = "an environment of suite 'fragile' failed in step: OSError: the game crashed"
    with pytest.raises(registry.EnvironmentFailed, match=f"^{sentence}$"):
        actor.run()
    told = [record for record in caplog.records if record.exc_info]
    assert [record.message for record in told] == [sentence]
    assert "raise OSError" in "".join(traceback.format_exception(*told[0].exc_info))


@pytest.mark.parametrize(
    ("suite", "what"),
    [("unmakable", "make: KeyError: 'assets'"), ("unresettable", "reset: IndexError: list index out of range")],
)
def test_what_fails_before_the_first_step_is_told_too(suite, what):
    with pytest.raises(registry.EnvironmentFailed, match=f"^an environment of suite '{suite}' failed in {what}$"):
        Actor(lambda: Client(suite)).run()


def test_environments_that_cannot_be_closed_do_not_hide_why_they_are(caplog, monkeypatch):
    def close(self, **kwargs):
        raise RuntimeError("stuck")

    monkeypatch.setattr(FragileVectorEnv, "close", close)
    with pytest.raises(registry.EnvironmentFailed, match="the game crashed"):
        Actor(lambda: Client("fragile")).run()
    assert "an environment could not be closed: RuntimeError('stuck')" in caplog.text


def test_a_refusal_ends_the_actor_and_is_told():
    with pytest.raises(Rejected, match="other spaces"):
        Actor(lambda: Client("counting", Rejected("other spaces"))).run()


def test_environments_that_reset_in_another_step_are_refused():
    with pytest.raises(registry.CannotBuild, match=r"SAME_STEP autoreset\), those of suite 'late' say .*NEXT_STEP"):
        Actor(lambda: Client("late")).run()


def test_sizes_of_the_actor_win_over_the_learners():
    client = Client("counting")
    actor = Actor(lambda: client, Sizes(num_groups=3, envs_per_group=2))
    run = threading.Thread(target=actor.run)
    run.start()
    assert client.stepped.wait(30)
    actor.stop()
    run.join(30)
    assert not run.is_alive()
    assert client.joined[0][1] == [2, 2, 2]


def test_a_lost_learner_is_joined_anew_with_other_runs_and_fresh_environments(monkeypatch):
    clients = [Client("counting") for _ in range(3)]
    waiting = iter(clients)
    monkeypatch.setattr("seed_rl.transport.backoff.Backoff.next", lambda self: 0.0)
    actor = Actor(lambda: next(waiting))
    run = threading.Thread(target=actor.run)
    run.start()
    for client in clients[:2]:
        assert client.stepped.wait(30)
        client.close()  # the connection is lost
    assert clients[2].stepped.wait(30)
    actor.stop()
    run.join(30)
    assert not run.is_alive()
    run_ids = [client.joined[0][0] for client in clients]
    assert len(set(run_ids)) == 3
    for client in clients:
        first = client.streams[0].outputs[0]
        assert first.done.all()
        assert (first.observation[:, 1:] == 0).all(), "every run begins with a reset"
        assert (first.reward == 0).all()
