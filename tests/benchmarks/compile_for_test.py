"""The programs of shipped experiments, through a TPU's compiler; with `--accelerators` all, and through a GPU's."""

import argparse

from benchmarks.ahead_of_time import DEVICES
from benchmarks.compile_for import EXPERIMENTS, PROGRAMS, measure
from benchmarks.hlo import Array, Program

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
%condition (p.2: (s32[], f32[4,256])) -> pred[] {
  %p.2 = (s32[], f32[4,256]{1,0}) parameter(0)
  %n = s32[] get-tuple-element(%p.2), index=0
  %rounds = s32[] constant(5)
  ROOT %less = pred[] compare(%n, %rounds), direction=LT
}

%body (p.1: (s32[], f32[4,256])) -> (s32[], f32[4,256]) {
  %p.1 = (s32[], f32[4,256]{1,0}) parameter(0)
  %x = f32[4,256]{1,0} get-tuple-element(%p.1), index=1
  %y = f32[4,256]{1,0} fusion(%x), kind=kLoop, calls=%f
  ROOT %t = (s32[], f32[4,256]{1,0}) tuple(%y)
}

ENTRY %main (store: u8[10,5,128], on_chip: f32[2,128]) -> u8[10,5,128] {
  %store = u8[10,5,128]{2,1,0:T(8,128)(4,1)} parameter(0)
  %fast = f32[2,128]{1,0:T(2,128)S(1)} parameter(1)
  %row = u8[3,128]{1,0} fusion(%fast), kind=kLoop, calls=%g
  %loop = (s32[], f32[4,256]{1,0}) while(%row), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"7"}}
  %other = (s32[], f32[4,256]) while(%loop), condition=%condition, body=%body
  %fetch = ((f32[8,64]{1,0}), f32[2,64]{1,0:S(1)}, u32[]{:S(2)}) slice-start(%store), async_kind="sync"
  %fetched = f32[2,64]{1,0:S(1)} slice-done(%fetch)
  %copy = u8[10,640]{0,1} copy(%store)
  ROOT %write = u8[10,5,128]{2,1,0} fusion(%store, %row), kind=kInput, calls=%h
}
"""


def test_traffic_of_a_program():
    program, store = Program(PROGRAM), Array("u8", (10, 5, 128), on_chip=False)
    row, loop, fetch = 3 * 128, (7 + 5) * 2 * 4 * 4 * 256, 2 * 64 * 4
    assert program.traffic(in_place=store) == row + loop + fetch + row
    assert program.traffic() == program.traffic(in_place=store) + 4 * store.nbytes
    assert program.results_like(store) == ["copy", "fusion"]
