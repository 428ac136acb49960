"""The rounds in which learner hosts agree on batches, and on the end of the run."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.experiment import Experiment, Logs
from seed_rl.extras.hosts import together
from seed_rl.extras.hosts.collectives import Link
from seed_rl.extras.hosts.hosts import HostLost, Hosts
from seed_rl.extras.hosts.together import HostSaver, HostSource, OtherSaver
from seed_rl.learner.progress import Counters, Progress
from seed_rl.learner.sources import Batch, Source
from seed_rl.runs.assembly import Assembly
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig


class Scripted(Source):
    """Takes an unroll at each call, and has a batch at some."""

    def __init__(self, *batches):
        self.left = list(batches)

    def next(self, timeout):
        self.taken += 1
        return self.left.pop(0)


class ScriptedLink(Link):
    """The link of the first of two hosts; `others` says whether the other one has a batch or wants to leave."""

    scale = 1.0  # of the other one's weights

    def __init__(self, *others):
        super().__init__(Hosts(("localhost:1", "localhost:2"), 0))
        self.others, self.said = list(others), []

    def sum(self, array):
        other, place = self.others.pop(0), 1 - self.hosts.index
        self.said.append(tuple(array[:3].tolist()))
        scales = (np.eye(2)[place] * self.scale).view(np.int64)
        return array + np.array([other == "leaves", other == "ready", 0, *scales])


FIRST, SECOND = (Batch([name], np.zeros(1), np.ones(1)) for name in "ab")


def test_a_batch_waits_for_another_host():
    link, counters = ScriptedLink("waits", "waits", "ready", "ready", "ready"), Counters()
    source = HostSource(link, Scripted(FIRST, None, SECOND), counters, 4)
    batches, found = source.batches(lambda: False), []
    for counters.env_frames in (0, 0, 0, 48, 96):
        found.append((next(batches), source.taken, link.env_frames))
    assert found == [
        (None, 0, 0),
        (None, 0, 0),  # what a waiting batch has taken doesn't count yet
        (FIRST, 1, 0),
        (None, 2, 48),  # no batch here, and what was taken counts
        (SECOND, 3, 96),
    ]
    assert link.said == [(0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 48), (0, 1, 96)]


def test_importance_weights_are_relative_to_the_largest_of_all_hosts():
    link = ScriptedLink("ready", "ready")
    own = [Batch([], np.zeros(1), np.array([1, 0.5], np.float32), scale) for scale in (3.0, 0.5)]
    batches, found = HostSource(link, Scripted(*own), Counters(), 4).batches(lambda: False), []
    for link.scale in (1.0, 2.0):
        batch = next(batches)
        found.append((batch.importance_weights.tolist(), batch.weight_scale))
    assert found == [([1, 0.5], 3), ([0.25, 0.125], 2)]


def test_a_replay_that_is_restored_after_its_source_was_built_is_not_counted_again(monkeypatch):
    monkeypatch.setattr(together, "connect", lambda hosts, experiment: ScriptedLink())
    experiment = Experiment(Counting(), CountingAgentConfig())
    inner, parts = Scripted(), SimpleNamespace(progress=Progress(1, np.ones(1, bool)), experiment=experiment)
    whole = Assembly(source=lambda parts: inner)
    assembly = together.with_hosts(Hosts(("localhost:1", "localhost:2"), 0), experiment, whole)
    parts.source = assembly.source(parts)
    inner.taken = 5000
    assembly.finish(parts)
    assert parts.source.taken == 5000


def test_other_hosts_count_the_frames_of_the_first_to_the_end():
    link, counters = ScriptedLink("ready", "leaves"), Counters(env_frames=40)
    link.hosts, frames = Hosts(link.hosts.addresses, 1), iter([48, 96])
    link.sum = lambda array: ScriptedLink.sum(link, array) + np.array([0, 0, next(frames), 0, 0])
    source = HostSource(link, Scripted(FIRST, FIRST), counters, 4)
    assert (len([*source.batches(lambda: False)]), source.taken) == (1, 0)
    assert (counters.env_frames, counters.agent_steps) == (96, 24)
    assert [frames for *_, frames in link.said] == [0, 0], "only host 0 says its own"


@pytest.mark.parametrize(("leaves", "other"), [(True, "ready"), (False, "leaves")])
def test_hosts_leave_together(leaves, other):
    link, turns = ScriptedLink("waits", other), itertools.count()
    batches = HostSource(link, Scripted(FIRST), Counters(), 4).batches(lambda: leaves and next(turns) == 1)
    assert [*batches] == [None]
    link.leave()
    assert len(link.said) == 2, "they have left already"


@pytest.mark.parametrize("others", [[0], [1], []], ids=["interrupted", "over", "gone"])
def test_a_run_is_over_if_it_is_for_one_host(others, monkeypatch):
    def total(array):
        if not others:
            raise HostLost("gone")
        return array + others[0]

    source = HostSource(link := ScriptedLink(), Scripted(), Counters(), 4)
    monkeypatch.setattr(link, "sum", total)
    assert source.is_over(True)
    assert source.is_over(False) == (others == [1])


@pytest.mark.parametrize("leaving", [GeneratorExit, KeyboardInterrupt, RuntimeError])
def test_a_host_that_leaves_the_loop_tells_the_others_once_and_only_the_first_writes(leaving, tmp_path):
    progress = Progress(1, np.ones(1, bool))
    progress.counters.learner_updates = 1
    for kind, written in ((OtherSaver, 0), (HostSaver, leaving is not RuntimeError)):
        link = ScriptedLink("waits")
        saver = kind(link, str(tmp_path), Logs(), {}, progress)
        with pytest.raises(leaving), saver.last_checkpoint():
            raise leaving
        if leaving is GeneratorExit:
            link.leave()
        assert link.said == [(1, 0, 0)] * (leaving is GeneratorExit), "elsewhere the others aren't about to agree"
        saver.save_if_due()
        assert len([*tmp_path.glob("checkpoints/*.npz")]) == written
