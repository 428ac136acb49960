"""The library leaves the program that uses it as it is."""

import pytest

from tests.support.processes import run_module


@pytest.mark.parametrize("order", ["loaded", "loaded by the library"])
def test_nothing_of_the_host_program_is_changed(order):
    run_module("tests.support.host_program", order)
