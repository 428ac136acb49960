"""Single runs of a sweep or a search."""

import contextlib

from seed_rl.studies import trial
from seed_rl.studies.sweep import Sweep
from seed_rl.studies.trial import Trial
from seed_rl.system.files import locked


def test_a_run_waits_for_the_one_that_a_killed_sweep_has_left(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    events = []
    monkeypatch.setattr(trial.children, "run_logged", lambda *arguments: events.append("begins") or (0, ""))
    with contextlib.ExitStack() as orphan:
        orphan.enter_context(locked(str(tmp_path / "one" / "lock")))

        def polled():
            events.append("polled")
            if events.count("polled") == 3:
                orphan.close()
                events.append("left")
            return False

        assert Sweep([], [], str(tmp_path), 1).train(Trial("one", {}), "one", polled, events.append) == 0
    assert events.index("started: one") < events.index("left") < events.index("begins")


def test_a_damaged_note_of_its_end_makes_a_run_unfinished(tmp_path):
    trainer, trial = Sweep([], ["--gin_file=catch/vtrace"], str(tmp_path), 1), Trial("one", {})
    (tmp_path / "one").mkdir()
    for note, is_finished in ((b"", False), (b"\xff[", False), (b'["--gin_file=catch/vtrace"]', True)):
        (tmp_path / "one" / "finished.json").write_bytes(note)
        assert trainer.is_finished(trial) == is_finished
