"""The flags that name learner hosts."""

import pytest

TWO = "--learner_hosts=localhost:1,localhost:2 --learner_host=0"


@pytest.mark.parametrize(
    ("flags", "index", "sentence"),
    [
        ("catch/vtrace --learner_hosts=a:1,b:2", "", "--learner_hosts needs --learner_host, the index"),
        ("catch/vtrace --learner_hosts=a:1,b:2", "2", "index must be 0 to 1, got 2"),
        ("catch/vtrace --learner_hosts=a:1,b:2", "first", "'first'"),
        ("catch/vtrace --learner_host=1", "first", "--learner_host needs --learner_hosts"),
        (f"catch/vtrace --record {TWO}", "", "recorded"),
        (f"pettingzoo/connect_four {TWO}", "", "league"),
    ],
)
def test_a_mistake_gets_one_sentence(flags, index, sentence, refused, monkeypatch):
    if index:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    refused(f"train {flags}", sentence)
