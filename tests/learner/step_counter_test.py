"""The batches of a lone learner, and the frames counted with them."""

from types import SimpleNamespace

import numpy as np

from seed_rl.learner.progress import Counters, StepCounter
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


def test_each_unroll_is_counted_once_however_often_it_is_replayed():
    source = Scripted((2, None), (3, "a"), (0, "b"), (0, None), (1, "c"), taken=7)  # restored with 7, counted before
    counters, of_two, found = Counters(agent_steps=28, env_frames=84), Counters(), []
    taken, taken_by_two = StepCounter(source, EXPERIMENT, 1), StepCounter(source, EXPERIMENT, 2)
    batches = source.batches(lambda: len(found) == 5)
    for _ in range(5):
        env_frames, batch = counters.env_frames, next(batches)
        taken.count(counters)
        found.append((batch and batch.parts[0], counters.agent_steps, env_frames))
        assert counters.env_frames == 3 * counters.agent_steps
    # Unrolls that only fill the replay count, too; progress is that before the batch.
    assert found == [(None, 36, 84), ("a", 48, 108), ("b", 48, 144), (None, 48, 144), ("c", 52, 144)]
    taken_by_two.count(of_two)
    assert of_two.agent_steps == 2 * (52 - 28), "as many on the other host"
    assert [*batches] == [], "and takes no more"
