"""Learners without a run around them."""

import contextlib

from seed_rl.runs.assembly import Assembly


def learner_of(experiment, directory, assembly=None):
    """Build the learner of an experiment, whose log directory exists."""
    assembly = assembly or Assembly()
    with contextlib.ExitStack() as cleanup:
        return assembly.learner(assembly.parts(experiment, str(directory), cleanup))
