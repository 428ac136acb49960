import json
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.inference.episodes import Episodes
from seed_rl.learner.progress import Counters, Progress

EVERY = np.ones(5, bool)


class Played:
    """Stands for inference: episodes that have ended, and the counts of each device's cursor."""

    def __init__(self, *rows, numbers=(), devices=1):
        self._rows, self._numbers = list(rows), list(numbers)
        self.threads = [SimpleNamespace(cursor=SimpleNamespace(discarded_unrolls=2, unrecorded_steps=5))] * devices

    def take_numbers(self):
        numbers, self._numbers = self._numbers, []
        return numbers

    def take_episodes(self):
        rows, self._rows = self._rows, []
        return [Episodes(*map(np.array, zip(*rows, strict=True)))] if rows else []


def test_episodes_and_numbers_of_training_and_evaluation_are_apart_and_those_of_opponents_do_not_count():
    progress = Progress(3, own=np.array([True, False, True, True, False]))
    numbers = [(2, "is_success", float(n >= 50)) for n in range(150)]
    numbers += [(1, "is_success", 9.0), (3, "is_success", 0.25), (4, "is_success", 9.0)]
    opponents = (1, 99.0, 9), (4, 99.0, 9)
    progress.service = Played((0, 1.0, 10), (3, 7.0, 4), (2, 2.0, 20), *opponents, numbers=numbers)
    assert progress.gauges() == {
        "episode_return": 1.5,
        "episode_length": 15.0,
        "eval/episode_return": 7.0,
        "eval/episode_length": 4.0,
        "episode/is_success": 1.0,  # of the last 100
        "eval/episode/is_success": 0.25,
        "eval/episodes": 1,
        "episodes": 2,
        "total_return": 3.0,
    }
    progress.service = Played(numbers=[(0, f"name{n}", 1.0) for n in range(1000)])
    assert len(progress.gauges()) < 100


def test_a_state_restores_counters_and_episodes_and_later_counts_are_added():
    first, second = Progress(3, EVERY), Progress(3, EVERY)
    played = Played((0, 1.0, 10), (4, 7.0, 4), devices=2, numbers=[(0, "coins", 3.0)])
    first.service = played
    vars(first.counters).update(saved := {"learner_updates": 7, "env_frames": 700, "seconds": 3.5})
    state = json.loads(json.dumps(first.get_state()))
    second.set_state(state)
    assert second.counters == Counters(**saved, discarded_unrolls=4, unrecorded_steps=10)
    assert second.gauges() == first.gauges()
    assert second.gauges()["episode/coins"] == 3.0
    assert json.loads(json.dumps(second.get_state())) == state
    second.service = Played((1, 3.0, 20))
    assert second.totals() == {**state["counters"], "discarded_unrolls": 6, "unrecorded_steps": 15}
    assert second.gauges().items() >= {"episode_return": 2.0, "episodes": 2, "total_return": 4.0}.items()


def test_an_evaluation_is_the_mean_of_ten_episodes_or_more_that_none_before_it_counted():
    progress = Progress(1, np.ones(2, bool))

    def after(episodes, value, progress=progress):
        progress.service = Played(*[(1, value, 5)] * episodes, (0, 100.0, 5))
        progress.gauges()
        return progress.new_evaluation()

    found = [after(2, 99.0), after(9, 2.0), after(1, 5.0), after(9, 7.0), after(3, 11.0), after(0, 0.0)]
    assert found == [None, None, 2.3, None, 8.0, None], "without the two that ended first"
    restored = Progress(1, np.ones(2, bool))
    restored.set_state(progress.get_state())
    assert [restored.new_evaluation(), after(10, 9.0, restored)] == [None, 9.0], "episodes before a restart count once"
    assert after(40, 4.0, restored) == 4.0


@pytest.mark.parametrize("count", [{"novelty": 1}, {"learner_updates": 0.5}, {"env_frames": -1}, {"seconds": np.inf}])
def test_an_odd_state_is_refused(count):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        Progress(1, EVERY).set_state(Progress(1, EVERY).get_state() | {"counters": count})
