"""Mistakes in the commands that share policies, and in the flag that names one."""

import pytest


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "eval --pretrained=catch --checkpoint=99",
            "/catch/checkpoints/checkpoint-0+99.npz can't be read: No su",
        ),
        (
            "eval --logdir=x --pretrained=pong",
            "expected a single policy: --logdir, .*, or --pretrained, a policy",
        ),
        ("eval --pretrained=pnog", "no pretrained policy 'pnog'; known are .*catch.* Did you mean 'pong'?"),
        (f"export --logdir=x --output={__file__}", "commands_test.py can't be written: it is a file"),
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)
