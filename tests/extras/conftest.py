"""Fixtures for the tests of all neighbours."""

from tests.evaluation import conftest as evaluation

saved_run = evaluation.saved_run
