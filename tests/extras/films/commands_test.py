"""Mistakes in the command that films."""

import pytest


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("play --logdir=x --fps=0.05", "flag --fps=0.05: 0.05 is not number >= 0.1"),
        ("play --logdir=x --output=x.avi", "--output files must end in .mp4 or .gif, got x.avi"),
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)
