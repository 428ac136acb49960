"""How environments are spread, when a run counts as steady, and how the product is run."""

import argparse
import sys

import psutil
import pytest

from benchmarks import scaling
from benchmarks.children import Child, ChildFailed
from benchmarks.failures import BadArguments, MeasurementFailed
from benchmarks.layouts import Layout, layout, plans, refusal
from benchmarks.product import State, has_settled, product, running
from benchmarks.scaling import window, with_ratios
from benchmarks.usage import NOTHING, ProcessUse, children_use, process_use


@pytest.mark.parametrize(
    ("environments", "processes", "expected"),
    [(16, 2, (2, 2, 4)), (64, 1, (1, 2, 32)), (64, 8, (8, 2, 4)), (4096, 2, (2, 64, 32)), (96, 1, (1, 3, 32))],
)
def test_environments_are_spread_evenly(environments, processes, expected):
    spread = layout(environments, processes, largest_group=32)
    assert spread == Layout(*expected)
    assert spread.environments == environments


@pytest.mark.parametrize(("environments", "processes"), [(10, 4), (3, 1), (70, 1)])
def test_environments_that_cannot_be_spread_are_refused(environments, processes):
    with pytest.raises(BadArguments, match="can't be spread evenly"):
        layout(environments, processes, largest_group=32)


def row(seconds: float, updates: float = 5, environments: float = 8, unrecorded: float = 40) -> dict[str, float]:
    return {
        "seconds": seconds,
        "learner_updates": updates,
        "environments": environments,
        "unrecorded_steps": unrecorded,
    }


def test_a_run_is_steady_some_time_after_all_its_unrolls_have_begun():
    begun = [row(1, updates=0, unrecorded=10), row(2, environments=4, unrecorded=30), row(3)]
    steady = [row(seconds) for seconds in (4, 5, 6, 7, 8)]
    assert not has_settled(begun, 8, settle=0)
    assert has_settled([*begun, steady[0]], 8, settle=1)
    assert not has_settled([*begun, *steady], 8, settle=5.5)
    assert has_settled([*begun, *steady], 8, settle=5)
    assert not has_settled([*begun, *steady], 9, settle=0)
    assert not has_settled([*begun, *steady, row(9, unrecorded=50)], 8, settle=0), "an actor has come back"
    assert not has_settled([*begun, row(4, updates=0)], 8, settle=0)


def test_a_window_is_the_difference_of_two_states():
    def state(seconds: float, frames: float, learner: float, actors: float) -> State:
        rows = [{"seconds": seconds, "env_frames": frames}]
        return State(rows, ProcessUse(1, learner, 700, 600), ProcessUse(2, actors, 300, 200))

    measured = window(state(10, 1000, 5.0, 2.0), state(14, 9000, 7.0, 3.0), simulated=False)
    assert measured == pytest.approx(
        {
            "frames_per_second": 2000,
            "learner_us": 250,
            "actors_us": 125,
            "total_us": 375,
            "learner_rss": 700,
            "learner_pss": 600,
            "actor_rss": 150,
            "actor_pss": 100,
        }
    )
    assert "total_us" not in window(state(10, 1000, 5.0, 2.0), state(14, 9000, 7.0, 3.0), simulated=True)
    with pytest.raises(MeasurementFailed, match="no unroll was learned from in 4 s"):
        window(state(10, 1000, 5.0, 2.0), state(14, 1000, 7.0, 3.0), simulated=False)


def test_ratios_are_to_64_environments_of_the_same_kind():
    rows = [
        {"environments": 16, "simulated": False, "frames_per_second": 50.0, "learner_us": 30.0, "total_us": 60.0},
        {"environments": 64, "simulated": False, "frames_per_second": 100.0, "learner_us": 20.0, "total_us": 40.0},
        {"environments": 64, "simulated": True, "frames_per_second": 200.0, "learner_us": 10.0},
        {"environments": 4096, "simulated": True, "frames_per_second": 220.0, "learner_us": 11.0},
        {"environments": 8192, "simulated": True, "skipped": "too many"},
    ]
    first, second, third, simulated, skipped = with_ratios(rows)
    assert (first["rate_ratio"], first["learner_ratio"], first["total_ratio"]) == (0.5, 1.5, 1.5)
    assert (second["rate_ratio"], second["total_ratio"]) == (1, 1)
    assert (third["rate_ratio"], third["learner_ratio"]) == (1, 1)
    assert simulated["learner_ratio"] == pytest.approx(1.1)
    assert "total_ratio" not in simulated
    assert skipped == rows[4]
    assert with_ratios(rows[4:]) == rows[4:]
    assert with_ratios([rows[0], {**rows[1], "environments": 256}])[1]["learner_ratio"] == pytest.approx(20 / 30)


def test_the_table_has_a_row_for_each_layout_and_a_sentence_for_each_that_failed():
    layout = {"processes": 2, "groups": 64, "group_size": 32, "environments": 4096, "simulated": False}
    names = ("frames_per_second", "learner_us", "actors_us", "total_us", "learner_pss", "actor_pss")
    measured = {name: {"median": 123_456_789.0, "repeats": [123_456_789.0]} for name in names}
    rows = with_ratios([{**layout, **measured}, {**layout, "failed": "too slow " * 30}])
    costs = {"bytes": 1e6, "start_ms": 10.0, "step_ms": 0.2}
    text = scaling.table({"environment": costs, "processes": rows, "envs": rows[:1]})
    assert "4,096  2x64x32  real" in text
    assert "2x64x32: too slow" in text
    assert max(map(len, text.splitlines())) <= 105, "the numbers are larger than they can be"


def test_large_sweeps_are_simulated_with_something_to_compare_them_with():
    parser = argparse.ArgumentParser()
    scaling.add_arguments(parser)
    flags = ["--processes=1,2", "--envs=16,64,256,4096", "--simulate_above=256"]
    planned = plans(parser.parse_args(flags))
    assert [(plan.layout.environments, plan.simulated) for plan in planned["envs"]] == [
        (16, False),
        (64, False),
        (256, False),
        (64, True),
        (4096, True),
    ]
    assert [(plan.layout.processes, plan.simulated) for plan in planned["processes"]] == [(1, False), (2, False)]
    simulated = plans(parser.parse_args([*flags, "--simulate"]))["envs"]
    assert [plan.layout.environments for plan in simulated] == [16, 64, 256, 4096]


def test_what_does_not_fit_is_said():
    spread = Layout(2, 64, 32)
    assert refusal(spread, store=10**9, bytes_per_env=1e6, simulated=False, free=24 * 10**9) == ""
    sentence = refusal(spread, store=10**9, bytes_per_env=1e7, simulated=False, free=24 * 10**9)
    assert sentence.startswith("4,096 environments don't fit and are left out: about 43.0 GB")
    assert refusal(spread, store=10**9, bytes_per_env=1e7, simulated=True, free=24 * 10**9) == ""


def test_use_of_processes_is_read():
    with psutil.Popen([sys.executable, "-c", "input()"], stdin=-1) as process:
        use = process_use(psutil.Process(process.pid))
        assert use.processes == 1
        assert 0 < use.pss_bytes <= use.rss_bytes
        below = children_use(psutil.Process())
        assert below.processes >= 1
        assert below.rss_bytes >= use.rss_bytes / 2
        process.stdin.write(b"\n")
    assert process_use(process) == NOTHING


def test_a_product_that_does_not_start_says_why():
    with (
        product("train", ["--gin_file=no/such"]) as run,
        pytest.raises(ChildFailed, match="seed_rl train has failed: exit code 2: seed_rl train: no gin file 'no/such'"),
    ):
        run.wait_until(lambda rows: True, 30, "metrics")


def test_a_product_ends_with_whoever_watches_it_and_its_log_directory_is_kept(tmp_path):
    arguments = ["--gin_file=catch/vtrace", "--server_address=localhost:0"]
    child = Child("seed_rl learner", running, "learner", arguments, str(tmp_path / "run"))
    child.wait_until_ready(30)
    learners = psutil.Process(child.pid).children()
    assert len(learners) == 1
    child.close()
    psutil.wait_procs(learners, timeout=20)
    assert not learners[0].is_running()
    assert (tmp_path / "run" / "output").exists()
