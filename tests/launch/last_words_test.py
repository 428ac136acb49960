"""How a process ended, in a line."""

import pytest

from seed_rl.launch.last_words import how_it_ended, last_words

TRACEBACK = """12:00:00 E seed_rl.actor.loop: an environment failed
Traceback (most recent call last):
  File "x.py", line 1, in <module>
KeyError: 'the thing'
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("12:00:00 I seed_rl.actor.loop: joined\n", ""),
        (f"{TRACEBACK}seed_rl actor: an environment failed: no thing\n", "an environment failed: no thing"),
        (f"{TRACEBACK}seed_rl actor: no thing\nException ignored in: x\n", "no thing"),
        (f"{TRACEBACK}seed_rl.envs.base.EnvironmentFailed: no thing\n", "no thing"),
        ("seed_rl: training has diverged: it is not finite\n", "training has diverged: it is not finite"),
        (TRACEBACK, "KeyError: 'the thing'"),
        ("terminate called without an active exception\n\n", "terminate called without an active exception"),
        ("x" * 9999, "x" * 500),
    ],
)
def test_a_process_is_quoted_with_its_sentence_or_its_last_line(text, words, tmp_path):
    path = tmp_path / "log"
    path.write_text(text)
    assert last_words(str(path)) == words


def test_what_was_said_before_is_not_quoted(tmp_path):
    path = tmp_path / "log"
    before = "seed_rl actor: the first time\n"
    path.write_text(before + "seed_rl actor: the second time\n")
    assert how_it_ended(1, str(path)) == "the second time"
    assert how_it_ended(1, str(path), len(before) * 2 + 1) == "exit code 1"


@pytest.mark.parametrize(
    ("code", "text", "how"),
    [
        (3, "", "exit code 3"),
        (-9, "12:00:00 I x: going well\n", "killed by SIGKILL"),
        (-6, "free(): invalid pointer\n", "killed by SIGABRT: free(): invalid pointer"),
        (-40, "", "killed by signal 40"),
        (1, "caf\xe9", "caf\ufffd"),
    ],
)
def test_one_that_was_killed_is_told_by_its_signal(code, text, how, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(text.encode("latin-1"))
    assert how_it_ended(code, str(path)) == how
