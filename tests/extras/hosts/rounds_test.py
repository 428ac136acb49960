"""The rounds in which learner hosts agree on batches, and on the end of the run."""

import numpy as np
import pytest

from seed_rl.extras.hosts.collectives import Link
from seed_rl.extras.hosts.hosts import Hosts
from seed_rl.learner.peers import Round
from seed_rl.learner.sources import Batch, Source


class Scripted(Source):
    """Has a batch at some calls."""

    def __init__(self, *batches):
        self.batches = list(batches)

    def next(self, timeout):
        return self.batches.pop(0)


class ScriptedLink(Link):
    """The link of the first of two hosts; `others` says whether the other one has a batch or wants to leave."""

    def __init__(self, *others):
        super().__init__(Hosts(("localhost:1", "localhost:2"), 0))
        self.others, self.said = list(others), []

    def agree(self, leave, ready, env_frames):
        other = self.others.pop(0)
        self.said.append((leave, ready, env_frames))
        leave = leave or other == "leaves"
        return leave, not leave and ready and other == "ready", env_frames + 1


FIRST, SECOND = (Batch([name], np.zeros(1), np.ones(1)) for name in "ab")


def test_a_batch_waits_for_another_host():
    source, link = Scripted(FIRST, None, SECOND), ScriptedLink("waits", "waits", "ready", "ready", "ready")
    for _ in range(2):
        assert link.next(source, False, 0) == Round(None, False, 1, postponed=True)
    assert link.next(source, False, 0) == Round(FIRST, False, 1), "with the progress of the first host"
    assert link.next(source, False, 48) == Round(None, False, 49), "no batch here, and what was taken counts"
    assert link.next(source, False, 96) == Round(SECOND, False, 97)
    assert link.said == [(False, True, 0), (False, True, 0), (False, True, 0), (False, False, 48), (False, True, 96)]


@pytest.mark.parametrize(("leave", "other"), [(True, "ready"), (False, "leaves")])
def test_hosts_leave_together(leave, other):
    source, link = Scripted(FIRST), ScriptedLink("waits", other)
    assert not link.next(source, False, 0).leave
    assert link.next(source, leave, 0).leave
    link.leave()
    assert len(link.said) == 2, "they have left already"


def test_a_host_that_leaves_the_loop_tells_the_others_once():
    link = ScriptedLink("waits")
    link.leave()
    link.leave()
    assert link.said == [(True, False, 0)]
