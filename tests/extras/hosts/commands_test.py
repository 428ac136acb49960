"""The flags that name learner hosts."""

import pytest

TWO = "--learner_hosts=localhost:1,localhost:2 --learner_host=0"


@pytest.mark.parametrize(
    ("flags", "index", "sentence"),
    [
        ("catch/vtrace --learner_hosts=a:1,b:2", "", "index"),
        ("catch/vtrace --learner_hosts=a:1,b:2", "first", "'first'"),
        ("catch/vtrace --learner_host=1", "first", "--learner_host needs --learner_hosts"),
        (f"catch/vtrace --record {TWO}", "", "recorded"),
        (f"pettingzoo/connect_four {TWO}", "", "league"),
    ],
)
def test_a_mistake_gets_one_sentence(flags, index, sentence, refused, monkeypatch):
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index or "-1")
    refused(f"train {flags}", sentence)
