"""Fixtures for the tests of all neighbours."""

from tests.evaluation import conftest as evaluation
from tests.runs import conftest as runs

saved_run = evaluation.saved_run
small_catch = runs.small_catch
