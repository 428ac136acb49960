"""An order is recorded, prescribed again, compared and cut."""

import json
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.errors import Failure
from seed_rl.experiment import Logs, config_files
from seed_rl.extras.repeating import file, recording, replay, segments
from seed_rl.extras.repeating.file import JournalError
from seed_rl.extras.repeating.orders import Replayed, Synchronous
from seed_rl.extras.repeating.recording import Recorded
from seed_rl.extras.repeating.segments import Differs
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.learner.progress import Counters
from seed_rl.specs import GroupLease
from seed_rl.system.machine import processor, versions
from seed_rl.transport.protocol import Refused
from seed_rl.transport.streams import Request
from seed_rl.types import EnvOutput
from tests.support.deadlines import within

QUEUE = UnrollQueue(1)
START = {
    "settings": config_files.load(["catch/vtrace"], ["Experiment.batch_size = 8"]).to_json(),
    "versions": versions(),
    "machine": {"processor": processor(), "threads": 2},
}


def weights(value):
    return {"agent/kernel": SimpleNamespace(numpy=lambda: np.full(3, value, np.float32))}


def request_of(lease):
    size = len(lease.env_ids)
    output = EnvOutput(np.zeros(size, np.float32), *np.zeros((2, size), bool), np.zeros((size, 1), np.uint8))
    return Request(lease, lease.env_id_array, False, output, stream=None)


def act(order, *groups):
    with order.acting(0, [SimpleNamespace(lease=group) for group in groups]):
        pass


def refresh(order):
    with order.refreshing():
        pass


@pytest.fixture
def journal(tmp_path):
    """A journal of two learner processes: the first ends after two updates and a checkpoint of the first."""
    path = str(tmp_path / file.NAME)
    for begin, acts in ((0, ((0, 1), (1,), (1, 0))), (1, ((0,), (1,)))):
        writer = file.Writer(path)
        order = Recorded(writer, START, Logs(digest_updates=1))
        order.begin(Counters(begin, env_frames=100 * begin), weights(begin))
        membership = order.membership(Membership(4, 7 + begin, 60.0))
        order.batcher(0, Batcher(4, 0.0), 4, QUEUE)
        refresh(order)
        lease = membership.join([2, 2])
        for update, numbers in enumerate(acts, begin + 1):
            act(order, *(lease.groups[number] for number in numbers))
            refresh(order)
            order.learned(update, weights(update))
            if update == 1:
                order.saving(update, weights(update))
        order.close()
    return path


def test_the_recorded_order_is_prescribed_whatever_comes_first(journal):
    order = Replayed(segments.load(journal)[0])
    batcher = order.batcher(0, Batcher(4, 0.0), 4, QUEUE)
    refresh(order)
    membership = order.membership(Membership(4, 0, 60.0))
    for sizes, name in (([3], "0"), ([2, 2], "1")):
        with pytest.raises(Refused, match="no further actor took part"):
            membership.join(sizes, f"{name} on unix:")
    one, two = order.membership(Membership(4, 0, 60.0)).join([2, 2], "0 on unix:").groups
    a, b = request_of(one), request_of(two)
    for each in (b, a):
        batcher.group_opened(each.lease)
        batcher.put(each)
    assert batcher.get() == [a, b]
    refreshed = threading.Thread(target=refresh, args=[order])
    refreshed.start()
    refreshed.join(0.05)
    assert refreshed.is_alive(), "acting has not got there"
    act(order, one, two)
    refreshed.join(within(10))
    assert not refreshed.is_alive()
    order.learned(1, weights(1))
    with pytest.raises(Differs, match="after 2 updates, agent/kernel differs"):
        order.learned(2, weights(1.5))
    batcher.put(b)
    batcher.group_closed(two)
    with pytest.raises(Failure, match="an actor ended during the replay"):
        batcher.get()


def test_an_actor_is_there_from_shortly_before_it_acts_until_it_has_acted_for_the_last_time():
    segment = segments.Segment({})
    for n, env_id in enumerate((0, 0, 1, 1)):  # the first was killed before it acted
        segment.join((GroupLease((env_id,), seed=n),))
    for group, refreshes in ((2, 0), (1, 2), (2, 0), (3, 3), (3, 0)):
        segment.refreshes += refreshes
        segment.act(0, group)
    assert [*segment.needed_after.items()] == [(2, 0), (1, 2), (3, 5)]
    assert segment.most_actors == 2
    order = Replayed(segment)
    order.batcher(0, Batcher(4, 0.0), 4, QUEUE)
    needed, done = [], []
    for turn in segment.turns(0):
        needed.append([actor for actor in (1, 2, 3) if order.needs(actor)])
        done.append([actor for actor in (1, 2, 3) if order.is_done(actor)])
        if turn == segments.WEIGHTS:
            refresh(order)
        else:
            act(order)
    assert needed == [[2]] * 2 + [[1, 2]] * 5 + [[1, 2, 3]] * 3
    assert done == [[]] * 4 + [[1]] + [[1, 2]] * 5


def test_a_replay_ends_with_its_segment_or_before_and_begins_where_it_did(journal):
    first, second = segments.load(journal)
    assert [len(replay.todo(journal, "", until)) for until in (1, None)] == [1, 2]
    with pytest.raises(Differs, match=r"its replay from \(1, 96\)"):
        Replayed(second).begin(Counters(1, env_frames=96), weights(1))
    for until, is_before in ((None, False), (9, False), (1, True)):
        replayed = Replayed(first, until)
        assert not replayed.ended(), "the learner has not begun"
        replayed.begin(counters := Counters(), weights(0))
        for updates, frames, ended in ((0, 100, False), (1, 99, is_before), (1, 100, True)):
            counters.learner_updates, counters.env_frames = updates, frames
            assert replayed.ended() == ended


def test_synchronous_groups_take_turns_once_all_are_there_and_the_learner_waits():
    order = Synchronous()
    demand = UnrollQueue(2)
    batcher = order.batcher(0, Batcher(4, 0.0), 6, demand)
    requests = [request_of(GroupLease((first, first + 1), seed=first)) for first in (0, 2, 4)]
    for each in reversed(requests):
        batcher.group_opened(each.lease)
        batcher.put(each)
    waiting = threading.Thread(target=lambda: demand.take(1, timeout=within(60)))
    waiting.start()
    for expected in (requests[:2], requests[2:], requests[:2]):
        assert batcher.get() == expected
        with order.acting(0, expected):
            for each in expected:
                batcher.put(each)
    demand.put(np.array([0]))
    waiting.join()
    found = []
    too_early = threading.Thread(target=lambda: found.append(batcher.get()))
    too_early.start()
    too_early.join(0.05)
    assert too_early.is_alive(), "the learner is busy"
    demand.close()
    too_early.join(within(10))
    assert found == [None], "nothing acts after the last update"


def written(directory, lines):
    writer = file.Writer(path := str(directory / f"{len(os.listdir(directory))}.gz"))
    for line in lines:
        writer.write(line)
    writer.close()
    return path


def test_the_first_difference_is_named(journal, tmp_path):
    lines = [*file.read(journal)]

    def difference(changed):
        return segments.difference(segments.load(journal), segments.load(written(tmp_path, changed)))

    assert difference(lines) == ""
    changed = [line.replace('"batch_size": 8', '"batch_size": 9') for line in lines]
    assert difference(changed) == "all of it is equal; settings batch_size is 8 and 9"
    digest = next(line for line in lines if line.startswith("digest 2"))
    assert difference([line for line in lines if line != digest]) == "", "of a checkpoint"
    for old, new, sentence in (
        (digest, digest[:-4] + "0000", "after 2 updates, agent/kernel differs"),
        ("act 0 1 0", "act 0 0 1", "after 2 updates, inference batches are of the groups (1, 0) and (0, 1)"),
        ("[[0, 1], 7]", "[[0, 1], 8]", "after 0 updates, the environments of actor 0 differ"),
        ('"frames": 100', '"frames": 99', "after 1 updates, learners start at updates and frames (1, 100) and (1, 99)"),
    ):
        assert difference("\n".join(lines).replace(old, new, 1).splitlines()) == sentence
    end = next(number for number, line in enumerate(lines) if number and line.startswith("run "))
    assert difference(lines[:end]) == "after 1 updates, the second journal ends"
    assert "'the end'" in difference(lines[:-2])


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"numpy": "', '"numpy": "0', "'numpy' was '0"),
        ("digest 1 ", "digest 2 ", "gap"),
        ('"updates": 0', '"updates": 5', "--from"),
        ("act 0 1", "act 0 2", "line 7 of .* is not understood"),
    ],
)
def test_what_cannot_be_replayed_here_is_refused(journal, tmp_path, old, new, word):
    lines = "\n".join(file.read(journal)).replace(old, new, 1).splitlines()
    with pytest.raises(JournalError, match=word):
        replay.todo(written(tmp_path, lines), "", None)


def test_a_replay_needs_the_weights_that_a_run_began_with_and_computes_in_what_auto_stood_for(tmp_path, monkeypatch):
    changes = ["Logs.wandb_project = 'my/secret'", "Experiment.init_from = 'runs/one'", "VTrace.dtype = 'auto'"]
    machine = {**START["machine"], "dtype": "mixed_bfloat16"}
    order = recording.recorded_order(config_files.load(["catch/vtrace"], changes), machine, None, str(tmp_path))
    order.begin(Counters(), weights(0))
    order.close()
    (segment,) = segments.load(str(tmp_path / file.NAME))
    assert segment.start["settings"]["logs.wandb_project"] == "", "no other place is named"
    with pytest.raises(JournalError, match="began with the weights of 'runs/one': give them as --init_from"):
        next(replay.replay(str(tmp_path), str(tmp_path / "replay")))

    def run(experiment, *_, **__):
        raise InterruptedError(experiment.agent.dtype, experiment.init_from)

    here = {**START["machine"], "environment": {}, "dtype": "float32"}
    monkeypatch.setattr(replay, "Run", run)
    monkeypatch.setattr(replay, "deterministic", lambda threads: here)
    with pytest.raises(InterruptedError, match="mixed_bfloat16.*runs/copy"):
        next(replay.replay(str(tmp_path), str(tmp_path / "replay"), init_from="runs/copy"))


def test_only_packages_of_the_runs_own_suite_have_to_be_the_same(tmp_path):
    def todo(name, *bindings):
        settings = config_files.load([name], bindings).to_json()
        run = {**START, "settings": settings, "versions": {**versions(), "envpool": "0.9"}}
        run |= {"updates": 0, "frames": 0, "variables": []}
        return replay.todo(written(tmp_path, [f"run {json.dumps(run)}", "weights"]), "", None)

    assert todo("catch/vtrace")
    with pytest.raises(JournalError, match="'envpool' was '0.9', here it is "):
        todo("gym/any", "Gym.id = 'Pendulum-v1'", "Gym.envpool = True")
