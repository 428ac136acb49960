"""The queue of runs and single runs in it; what really runs is proven by the last test of `search_test`."""

import contextlib

import pytest

from seed_rl.extras.studies.runs import Run, Trial, train_all
from seed_rl.system import children
from seed_rl.system.files import locked


def test_a_run_waits_for_the_one_that_a_killed_queue_has_left(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    events = []
    monkeypatch.setattr(children, "run_logged", lambda *arguments: events.append("begins") or (0, ""))
    with contextlib.ExitStack() as orphan:
        orphan.enter_context(locked(str(tmp_path / "one" / "lock")))

        def polled():
            events.append("polled")
            if events.count("polled") == 4:
                orphan.close()
                events.append("left")
            return False

        assert Run(Trial("one", {}), [], str(tmp_path)).train(polled, events.append) == 0
    assert events.index("started: one") < events.index("left") < events.index("begins")


def test_a_damaged_note_of_its_end_makes_a_run_unfinished(tmp_path):
    run = Run(Trial("one", {}), ["--gin_file=catch/vtrace"], str(tmp_path))
    (tmp_path / "one").mkdir()
    for note, is_finished in ((b"", False), (b"\xff[", False), (b'["--gin_file=catch/vtrace"]', True)):
        (tmp_path / "one" / "finished.json").write_bytes(note)
        assert run.is_finished() == is_finished


class Fake(Run):
    """A run that notes what happens to it."""

    def __init__(self, name, notes, code=0, then=lambda: None):
        super().__init__(Trial(name, {}), [], "")
        self._notes, self._code, self._then = notes, code, then

    def train(self, stopped, say):
        self._notes.append(f"train {self.title}")
        self._then()
        return self._code

    def end(self, say):
        self._notes.append(f"end {self.title}")


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_queue_trains_each_run_once_and_says_that_one_failed(parallel):
    notes = []
    runs = [Fake("a", notes), Fake("b", notes, code=3), Fake("c", notes)]
    assert train_all(runs, lambda: False, notes.append, parallel) == 3
    assert sorted(notes) == [f"{what} {name}" for what in ("end", "train") for name in "abc"]


def test_a_queue_that_is_stopped_asks_for_no_further_run_and_records_none():
    notes, stop = [], []
    runs = (Fake(name, notes, then=lambda: stop.append(notes[-1] == "train b")) for name in "abc")
    assert train_all(runs, lambda: any(stop), notes.append) == 0
    assert notes == ["train a", "end a", "train b"]
    assert next(runs).title == "c"
