"""The flags that name learner hosts."""

import pytest

TWO = "--learner_hosts=localhost:1,localhost:2 --learner_host=0"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            "catch/vtrace --learner_hosts=a:1,b:2",
            "--learner_hosts: of 2 learner hosts the index must be 0 to 1, got -1",
        ),
        ("catch/vtrace --learner_host=1", "--learner_host needs --learner_hosts"),
        (f"catch/vtrace --record {TWO}", "a recorded or synchronous run needs a single learner host, this run has 2"),
        (f"pettingzoo/connect_four {TWO}", "a league needs a single learner host, this run has 2"),
    ],
)
def test_a_mistake_gets_one_sentence(flags, sentence, refused):
    refused(f"train {flags}", sentence)
