"""The queue of runs and single runs in it; what really runs is proven by the last test of `search_test`."""

import contextlib

import pytest

from seed_rl.extras.studies.runs import Run, Trial, train_all
from seed_rl.system import children
from seed_rl.system.files import locking


def test_a_run_waits_for_the_one_that_a_killed_queue_has_left(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    events = []
    monkeypatch.setattr(children, "run_logged", lambda *arguments: events.append("begins") or (0, ""))
    with contextlib.ExitStack() as orphan:
        orphan.enter_context(locking(str(tmp_path / "one" / "lock")))

        def polled():
            events.append("polled")
            if events.count("polled") == 4:
                orphan.close()
                events.append("left")
            return False

        assert Run(Trial("one", {}), [], str(tmp_path)).train(polled, events.append) == 0
    assert events.index("started: one") < events.index("left") < events.index("begins")


@pytest.mark.parametrize(("parallel", "stop", "trained", "ended"), [(1, "d", "abcd", "abc"), (2, "", "abcde", "abcde")])
def test_a_queue_trains_each_run_once_until_it_is_stopped_and_says_that_one_failed(parallel, stop, trained, ended):
    notes = []

    class Noted(Run):
        def train(self, stopped, say):
            notes.append(f"train {self.title}")
            return 3 if self.title == "b" else 0

        def end(self, say):
            notes.append(f"end {self.title}")

    runs = (Noted(Trial(name, {}), [], "") for name in "abcde")
    assert train_all(runs, lambda: f"train {stop}" in notes, notes.append, parallel) == 3
    assert sorted(notes) == [*(f"end {name}" for name in ended), *(f"train {name}" for name in trained)]
