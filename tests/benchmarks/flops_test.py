import pytest

from benchmarks.flops import forward_flops, matrix_product
from seed_rl import config_files

SHALLOW = 20 * 20 * 32 * (8 * 8 * 4) + 9 * 9 * 64 * (4 * 4 * 32) + 7 * 7 * 64 * (3 * 3 * 64) + 7 * 7 * 64 * 512
"""Multiplications of the shallow network in Pong, without the heads."""


@pytest.mark.parametrize(
    ("lstm_units", "multiplications"),
    [(0, SHALLOW + 512 * (6 + 1)), (8, SHALLOW + (512 + 8) * 4 * 8 + 8 * (6 + 1))],
)
def test_every_product_counts_two_operations_those_of_a_loop_included(lstm_units, multiplications):
    experiment = config_files.load(["atari/vtrace"], [f"VTrace.lstm_units = {lstm_units}"])
    assert forward_flops(experiment.build_agent(), experiment.env.spec()) == 2 * multiplications


def test_a_product_of_matrices():
    product, operations = matrix_product("float32", 16)
    assert operations == 2 * 16**3
    assert product() > 0
