"""Agreement of learner hosts on batches, and the frames counted with them."""

from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.learner.agreed_source import AgreedSource
from seed_rl.learner.collectives import NO_OTHERS, Agreed
from seed_rl.learner.hosts import Hosts
from seed_rl.learner.progress import Counters
from seed_rl.learner.sources import Batch, Source

EXPERIMENT = SimpleNamespace(agent=SimpleNamespace(unroll_length=5), env=SimpleNamespace(action_repeat=3))


class Scripted(Source):
    """Takes the given number of unrolls at each call, with an end of an episode in each, and may have a batch."""

    def __init__(self, *calls, taken=0):
        self.taken, self.calls = taken, list(calls)

    @property
    def ends(self):
        return self.taken

    def next(self, timeout):
        taken, name = self.calls.pop(0)
        self.taken += taken
        return name and Batch([name], np.zeros(1), np.ones(1))

    def write_back(self, priorities):
        raise NotImplementedError


class ScriptedLink:
    """The link of the first of two hosts; `others` says whether the other one has a batch or wants to leave."""

    def __init__(self, *others):
        self.hosts, self.others, self.said = Hosts(("localhost:1", "localhost:2")), list(others), []

    def agree(self, *, leave, ready, env_frames):
        other = self.others.pop(0)
        self.said.append((leave, ready, env_frames))
        leave = leave or other == "leaves"
        return Agreed(leave, not leave and ready and other == "ready", env_frames)


def test_each_unroll_is_counted_once_however_often_it_is_replayed():
    source = Scripted((2, None), (3, "a"), (0, "b"), (0, None), (1, "c"), taken=7)  # restored with 7, counted before
    counters = Counters(agent_steps=28, env_frames=84)
    batches = AgreedSource(source, counters, NO_OTHERS, EXPERIMENT)
    assert batches.env_frames == 84
    found = []
    for _ in range(5):
        batch = batches.next(leave=False)
        found.append((batch and batch.parts[0], counters.agent_steps, batches.env_frames))
        assert counters.env_frames == 3 * counters.agent_steps
    # Unrolls that only fill the replay count, too; progress is that before the last batch.
    assert found == [(None, 36, 84), ("a", 48, 108), ("b", 48, 144), (None, 48, 144), ("c", 52, 144)]
    assert not batches.left
    assert batches.next(leave=True) is None, "and takes no more"
    assert batches.left


def test_a_batch_waits_for_another_host_and_is_counted_when_used():
    source, counters = Scripted((2, "a"), (2, None), (0, "b")), Counters()
    link = ScriptedLink("waits", "waits", "ready", "ready", "ready")
    batches = AgreedSource(source, counters, link, EXPERIMENT)
    for _ in range(2):
        assert batches.next(leave=False) is None
        assert (counters.agent_steps, batches.env_frames) == (0, 0)
    assert batches.next(leave=False).parts == ["a"]
    assert counters.agent_steps == 2 * 4 * 2, "and as many on the other host"
    assert (batches.env_frames, counters.env_frames) == (0, 48), "the first update is made at the start of the run"
    assert batches.next(leave=False) is None, "no batch here"
    assert counters.env_frames == 96
    assert batches.next(leave=False).parts == ["b"]
    assert link.said == [(False, True, 0), (False, True, 0), (False, True, 0), (False, False, 48), (False, True, 96)]


@pytest.mark.parametrize(("leave", "other"), [(True, "ready"), (False, "leaves")])
def test_hosts_leave_together_and_a_batch_that_waits_is_not_counted(leave, other):
    source, counters, link = Scripted((2, "a")), Counters(), ScriptedLink("waits", other)
    batches = AgreedSource(source, counters, link, EXPERIMENT)
    assert batches.next(leave=False) is None
    assert not batches.left
    assert batches.next(leave=leave) is None
    assert batches.left
    assert counters == Counters()
    batches.leave()
    assert len(link.said) == 2, "they have left already"


def test_a_host_that_leaves_the_loop_tells_the_others_once():
    link = ScriptedLink("waits")
    batches = AgreedSource(Scripted(), Counters(), link, EXPERIMENT)
    batches.leave()
    batches.leave()
    assert link.said == [(True, False, 0)]
    assert batches.left
