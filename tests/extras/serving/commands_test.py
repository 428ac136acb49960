"""Mistakes in the command that serves."""


def test_serving_two_policies_is_a_mistake(refused):
    refused("serve a --logdir=b", "expected a single policy: --logdir, the log directory of a run")
