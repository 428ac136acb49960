"""Fixtures for tests that start `seed_rl` processes."""

from tests.integration import conftest as integration

runs, wait_for = integration.runs, integration.wait_for
