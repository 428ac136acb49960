"""What the thread of an inference device does with its batches."""

from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.buffers.slots import SlotPool
from seed_rl.inference import thread as module
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.thread import ActingThread, InferenceStats
from seed_rl.specs import GroupLease
from seed_rl.transport.streams import Request
from seed_rl.types import EnvOutput


class Neighbours:
    """Act step, queue and batcher in one, which note calls and take 5, 3 and 2 seconds."""

    padding, waiting_seconds, stepping_seconds = 3, 11.0, 13.0

    def __init__(self, *batches):
        self.now, self.calls, self._batches = 100.0, [], list(batches)

    def __call__(self, env_ids, restarted, writes, outputs):
        self.now += 5
        self.calls.append((env_ids.tolist(), restarted.tolist(), [output.reward.tolist() for output in outputs]))
        return 10 * env_ids

    def wait_for_room(self):
        self.now += 3
        self.calls.append("room")
        return True

    def get(self):
        self.now += 2
        return self._batches.pop(0) if self._batches else None

    def put(self, slots):
        self.calls.append(len(slots))

    def answered(self, requests):
        self.calls.append("answered")

    def close(self):
        self.calls.append("closed")


@pytest.fixture
def act(monkeypatch):
    """Lets a thread for four environments with unrolls of two steps act for all batches; returns it and the pool."""

    def run(neighbours):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: neighbours.now))
        pool = SlotPool(9)
        cursor = UnrollCursor(np.ones(4, bool), 2, 2, pool, stagger=False)
        cursor.version, cursor.newest_version = 5, 7
        thread = ActingThread(neighbours, cursor, neighbours, neighbours)
        thread.start()
        thread._thread.join()
        thread.stop()
        return thread, pool

    return run


def request(answers, *ids, reward=0.0, done=False, last=False, first=False):
    ends = np.full(len(ids), done), np.full(len(ids), last)
    output = EnvOutput(np.full(len(ids), reward, np.float32), *ends, np.zeros((len(ids), 1), np.uint8))
    stream = SimpleNamespace(answer=lambda actions: answers.append(actions.tolist()))
    return Request(GroupLease(ids, 0), np.array(ids, np.int32), first, output, stream)


def test_each_group_gets_its_part_of_a_batch_and_every_step_is_counted_once(act, caplog):
    answers = []
    begun = [request(answers, 3, 0, first=True), request(answers, 2)]
    ended = [request(answers, 3, 0, reward=1, last=True), request(answers, 2, reward=2)]
    neighbours = Neighbours(begun, ended, [request(answers, 3, done=True), request(answers, 2, reward=4, done=True)])
    thread, pool = act(neighbours)
    assert answers == [[30, 0], [20], [30, 0], [20], [30], [20]]
    assert neighbours.calls == [
        *(([3, 0, 2], [True, True, False], [[0, 0], [0]]), "answered"),
        *("room", ([3, 0, 2], [False] * 3, [[1, 1], [2]]), "answered", 3),
        *(([3, 2], [False] * 2, [[0], [4]]), "answered", "closed", "closed"),
    ]
    assert thread.stats == InferenceStats(6, 3, 9, 3 * 2, 4 * 2.0, 3.0, 3 * 5.0, 11.0, 13.0)
    assert sorted(pool.ends.tolist()) == [0] * 7 + [1, 1], "of the groups whose episode ends"
    episodes = [row for each in thread.episodes.take() for row in zip(*map(np.ndarray.tolist, each), strict=True)]
    assert episodes == [(3, 1.0, 1), (0, 1.0, 1), (2, 6.0, 3)]
    assert not caplog.records


def test_a_failure_closes_what_others_wait_for(act):
    neighbours = Neighbours([request([], 0), request([], 0, 1)])
    neighbours.answered = None
    thread, _ = act(neighbours)
    assert isinstance(thread.failure, TypeError)
    assert neighbours.calls[-2:] == ["closed", "closed"]


def test_totals_of_several_devices():
    one, other = InferenceStats(1, 2, 3, 4, 5.0, 6.0, 7.0, 8.0, 9.0), InferenceStats(*[1] * 4, *[1.0] * 5)
    assert InferenceStats.of([one, other]) == InferenceStats(2, 3, 4, 5, 3.0, 3.5, 4.0, 9.0, 10.0)
