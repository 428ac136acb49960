"""The queue of runs and single runs in it; what really runs is proven by the last test of `search_test`."""

import contextlib

from seed_rl.extras.studies.runs import Run, Trial
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
