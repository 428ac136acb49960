"""The library leaves the program that uses it as it is."""

from tests.support.processes import run_module


def test_nothing_of_the_host_program_is_changed():
    run_module("tests.support.host_program")
