"""The programs of shipped experiments, through a TPU's compiler; with `--accelerators` all, and through a GPU's."""

import argparse

import tensorflow as tf

from benchmarks.compile_for import DEVICES, EXPERIMENTS, PROGRAMS, measure, results_like

SMALLEST = {"memory/r2d2": ("update",), "gym/pendulum": PROGRAMS, "atari/r2d2": ("act",)}
"""The smallest experiment for each kind of update, observation and action."""

LARGE_ACTIVATIONS = {
    ("v5e", "atari/vtrace_deep"),
    ("h200", "atari/vtrace_deep"),
    ("h200", "dmlab/vtrace"),
    ("h200", "football/vtrace"),
}
"""Residual networks whose activations alone take more than 100 MB for 256 environments."""


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        smallest = [("v5e", name, program) for name, programs in SMALLEST.items() for program in programs]
        everything = [(device, name, program) for device in DEVICES for name in EXPERIMENTS for program in PROGRAMS]
        chosen = everything if metafunc.config.getoption("accelerators") else smallest
        metafunc.parametrize(("device", "name", "program"), chosen)


def test_compiled_without_a_copy_of_the_store(device, name, program, request):
    environments = 256 if request.config.getoption("accelerators") else 16
    arguments = {"devices": [device], "experiments": [name], "programs": [program], "environments": environments}
    (cell,) = measure(argparse.Namespace(**arguments))["programs"]
    assert "refused" not in cell
    if program == "act":
        assert len(cell["as_large_as_the_store"]) <= 1, "the write in place alone"
        allowed = 3e8 if (device, name) in LARGE_ACTIVATIONS else max(1e8, 0.1 * cell["store_nbytes"])
        assert cell["temporary_nbytes"] < allowed


PROGRAM = """
%fused (p.2: u8[10,5,128]) -> u8[10,5,128] {
  ROOT %inner = u8[10,5,128]{2,1,0} dynamic-update-slice(%p.2)
}

%body (p.1: (s32[], f32[4,256])) -> (s32[], f32[4,256]) {
  %p.1 = (s32[], f32[4,256]{1,0}) parameter(0)
  %again = u8[10,640]{1,0} copy(%p.1)
  ROOT %t = (s32[], f32[4,256]{1,0}) tuple(%y)
}

ENTRY %main (store: u8[10,5,128], on_chip: f32[2,128]) -> u8[10,5,128] {
  %store = u8[10,5,128]{2,1,0:T(8,128)(4,1)} parameter(0)
  %loop = (s32[], f32[4,256]{1,0}) while(%row), condition=%c, body=%body
  %other = f32[10,640]{0,1} copy(%row)
  %small = u8[10,64]{0,1} copy(%store)
  %chip = u8[10,640]{0,1:S(1)} copy(%store)
  %fetch = ((u8[10,5,128]{2,1,0}), u8[10,5,128]{2,1,0:S(1)}, u32[]{:S(2)}) copy-start(%store), async_kind="sync"
  %fetched = u8[10,5,128]{2,1,0:S(1)} copy-done(%fetch)
  %moved = (u8[10,5,128]{2,1,0}, u8[10,5,128]{2,1,0}, u32[]) copy-start(%store)
  ROOT %write = u8[10,5,128]{2,1,0} fusion(%store, %row), kind=kInput, calls=%fused
}
"""


def test_what_is_as_large_as_the_store_is_found():
    store = tf.TensorSpec([10, 5, 128], tf.uint8)
    assert results_like(PROGRAM, store) == ["copy", "copy-start", "fusion"]
