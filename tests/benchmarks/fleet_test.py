"""What a fleet saturates, and the accounting of threads."""

import threading
import time

import pytest

from benchmarks import fleet, usage
from benchmarks.saturation import Load, first_limit
from benchmarks.usage import ThreadUse
from seed_rl.capacity import SERVER

IDLE = Load(
    keeps_up=False,
    generator=0.1,
    server=0.1,
    inference=0.2,
    acting=0.1,
    blocked=0.0,
    machine=0.2,
    file_descriptors=0.1,
    memory=0.1,
)


@pytest.mark.parametrize(
    ("full", "words"),
    [
        ({"generator": 0.99, "server": 0.99}, "the load generator"),
        ({"server": 0.9, "acting": 0.9}, "transport: the server's thread takes 90% of a core"),
        ({"blocked": 0.5, "acting": 0.4}, "learner: acting waits for it 50% of the time"),
        ({"acting": 0.95}, "act step: running 95% of the time"),
        ({"acting": 0.95, "machine": 1.0}, "act step: running 95% of the time, on a machine whose cores are 100% busy"),
        ({"inference": 0.9, "acting": 0.5}, "inference: its thread takes 90% of a core"),
        ({"machine": 0.97}, "CPU: the machine's cores are 97% busy"),
        ({"file_descriptors": 0.95}, "file descriptors"),
        ({"memory": 0.95}, "memory"),
        ({}, "nothing is full"),
    ],
)
def test_what_is_full_is_named(full, words):
    assert first_limit(IDLE._replace(**full)).startswith(words)
    assert first_limit(IDLE._replace(**full, keeps_up=True)) == ""


def test_a_fleet_saturates_where_it_first_falls_behind():
    rows = [
        {"actors": 16, "achieved": 300.0, "limit": ""},
        {"actors": 64, "achieved": 900.0, "limit": "act step"},
        {"actors": 128, "failed": "no sockets", "limit": "failed: no sockets"},
    ]
    assert fleet.saturation(rows) == {"saturated_at": 64, "most": 900.0, "broke_first": "act step"}
    assert fleet.saturation(rows[:1]) == {"saturated_at": None, "most": 300.0, "broke_first": ""}
    assert fleet.saturation([rows[2]])["most"] == 0


@pytest.mark.parametrize(
    ("python", "native", "of_tensorflow", "kind"),
    [
        ("actor-server", "python", False, usage.TRANSPORT),
        ("inference", "python", True, usage.INFERENCE),
        ("learner", "python", False, usage.LEARNER),
        ("MainThread", "python", True, usage.OTHER),
        ("", "event_engine", True, usage.TRANSPORT),
        ("", "grpc_global_tim", False, usage.TRANSPORT),
        ("", "tf_Compute", False, usage.TENSORFLOW),
        ("", "python", True, usage.TENSORFLOW),
        ("", "python", False, usage.OTHER),
    ],
)
def test_threads_are_told_apart(python, native, of_tensorflow, kind):
    assert usage.kind_of(python, native, of_tensorflow) == kind


def test_names_with_brackets_and_spaces_are_read():
    fields = " ".join(["S", *map(str, range(4, 14)), "250", "150", *["0"] * 30])
    name, seconds = usage.parse_stat(f"77 (a) (b c) {fields}")
    assert name == "a) (b c"
    assert seconds == pytest.approx(4.0)


def test_cpu_goes_to_the_thread_that_used_it():
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            sum(range(1000))

    before = usage.own_threads()
    busy = threading.Thread(target=burn, name="inference")
    busy.start()
    deadline = time.monotonic() + 20
    while (used := usage.cpu_by_kind(before, usage.own_threads()))[usage.INFERENCE] < 0.2:
        assert time.monotonic() < deadline, used
        time.sleep(0.02)
    assert usage.cpu_of_thread(before, usage.own_threads(), "inference") >= 0.2
    stop.set()
    busy.join()
    assert used[usage.TENSORFLOW] == 0


def test_cpu_between_looks_is_a_difference():
    before = {1: ThreadUse(usage.TRANSPORT, "actor-server", 2.0), 2: ThreadUse(usage.OTHER, "x", 1.0)}
    after = {1: ThreadUse(usage.TRANSPORT, "actor-server", 3.5), 3: ThreadUse(usage.TRANSPORT, "event_engine", 0.25)}
    assert usage.cpu_by_kind(before, after)[usage.TRANSPORT] == pytest.approx(1.75)
    assert usage.cpu_of_thread(before, after, "actor-server") == pytest.approx(1.5)


def test_the_table_of_large_fleets_is_not_too_wide():
    kinds = {f"cores/{kind}": 1.23 for kind in usage.KINDS}
    names = ("achieved", "p50", "p99", "batch", "learner_bytes", "act_ms", "cpu_us_per_observation")
    served = {"actors": 1024, "offered": 327_680.0, **kinds, "machine": 1.0, "file_descriptors": 1080}
    rows = [{**served, **dict.fromkeys(names, 12_345.6), "learner_bytes": 9e9, "limit": "act step: running " * 9}]
    rows.append({"actors": 2048, "failed": "no sockets " * 20, "limit": "failed"})
    bare = {"observations_per_second": 1e6, "server_s_per_message": 1e-4}
    host = {"cores": 96, "accelerator": True, "actors": 123_456_789, "limit": SERVER}
    group = {"group_size": 16, "step_ms": 50.0, "rows": rows, "flat_out": rows[0], "null": bare, "hosts": [host] * 4}
    group |= fleet.saturation(rows)
    text = fleet.table({"groups": [group], "accelerator": {"batch": 256, "seconds_per_batch": 0.002}})
    assert max(map(len, text.splitlines())) <= 100, text
    assert "2,048 actors: no sockets" in text
    assert "saturated at 1,024 actors; first of all, act step" in text
