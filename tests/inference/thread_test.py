from types import SimpleNamespace

import numpy as np

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
        self.put = lambda slots: self.calls.append(len(slots))
        self.answered = lambda requests: self.calls.append("answered")
        self.close = lambda: None

    def __call__(self, env_ids, restarted, writes, outputs):
        self.now += 5
        self.calls.append((env_ids.tolist(), restarted.tolist()))
        return 10 * env_ids

    def wait_for_room(self):
        self.now += 3
        self.calls.append("room")
        return True

    def get(self):
        self.now += 2
        return self._batches.pop(0) if self._batches else None


def request(answers, *ids, reward=0.0, done=False, last=False, first=False):
    rewards, *ends = (np.full(len(ids), value) for value in (np.float32(reward), done, last))
    stream = SimpleNamespace(answer=lambda actions: answers.append(actions.tolist()))
    output = EnvOutput(rewards, *ends, np.zeros((len(ids), 1), np.uint8))
    return Request(GroupLease(ids, 0), np.array(ids, np.int32), first, output, stream)


def test_each_group_gets_its_part_of_a_batch_and_every_step_is_counted_once(monkeypatch, caplog):
    answers, pool = [], SlotPool(9, num_places=99, window=2)
    begun = [request(answers, 3, 0, first=True), request(answers, 2)]
    ended = [request(answers, 3, 0, reward=1, last=True), request(answers, 2, reward=2, first=True)]
    neighbours = Neighbours(begun, ended, [request(answers, 3, done=True), request(answers, 2, reward=4, done=True)])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: neighbours.now))
    cursor = UnrollCursor(np.ones(4, bool), 2, 2, pool, stagger=False)
    cursor.version, cursor.newest_version = 5, 7
    thread = ActingThread(neighbours, cursor, neighbours, neighbours)
    thread.start()
    thread.stop()
    assert answers == [[30, 0], [20], [30, 0], [20], [30], [20]]
    assert neighbours.calls == [
        *(([3, 0, 2], [True, True, False]), "answered"),
        *("room", ([3, 0, 2], [False, False, True]), "answered", 2),
        *("room", ([3, 2], [False] * 2), "answered", 1),
    ]
    assert thread.stats == InferenceStats(6, 3, 9, 3 * 2, 4 * 2.0, 2 * 3.0, 3 * 5.0, 11.0, 13.0)
    assert InferenceStats.of([thread.stats] * 2) == InferenceStats(12, 6, 18, 12, 8.0, 6.0, 15.0, 22.0, 26.0)
    assert sorted(pool.ends.tolist()) == [0] * 7 + [1, 1], "of the group whose episodes end"
    episodes = [row for each in thread.episodes.take() for row in zip(*map(np.ndarray.tolist, each), strict=True)]
    assert episodes == [(3, 1.0, 1), (0, 1.0, 1), (2, 4.0, 1)]
    assert not caplog.records
