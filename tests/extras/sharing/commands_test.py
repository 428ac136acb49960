"""Mistakes in the commands that share policies."""

import pytest


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "eval --logdir=catch --checkpoint=99",
            "catch/checkpoints/checkpoint-0+99.npz can't be read: No su",
        ),
        (f"export --logdir=x --output={__file__}", "commands_test.py can't be written: it is a file"),
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)
