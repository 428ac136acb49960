import logging

import pytest
import tensorflow as tf

from seed_rl.buffers import placement
from seed_rl.buffers.placement import (
    DoesNotFit,
    StoreSize,
    choose_device,
    free_host_memory,
    free_memory,
    place_store,
    sequence_nbytes,
)
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.types import EnvOutput, Unroll

GB = 10**9
# 11 GB: fits where 12.3 GB are free on the host, or 16.7 GB on an accelerator.
STORE = StoreSize(capacity=100, in_progress=10, nbytes_each=10**8)


@pytest.mark.parametrize(
    ("wanted", "device_gb", "host_gb", "chosen"),
    [
        ("auto", 17, 64, "GPU:0"),
        ("auto", 17, 1, "GPU:0"),
        ("auto", 16, 64, "CPU:0"),
        ("device", 17, 64, "GPU:0"),
        ("host", 17, 64, "CPU:0"),
    ],
)
def test_chooses_the_device_if_it_fits_there(wanted, device_gb, host_gb, chosen):
    assert choose_device(wanted, STORE, {"CPU:0": host_gb * GB, "GPU:0": device_gb * GB}) == chosen


def test_an_accelerator_keeps_room_for_an_update():
    size = StoreSize(capacity=9, in_progress=0, nbytes_each=GB)
    assert choose_device("device", size, {"CPU:0": GB, "GPU:0": 15 * GB}) == "GPU:0"
    with pytest.raises(DoesNotFit, match="8.6 GB of device memory are free for it: .* at most 8 fits"):
        choose_device("device", size, {"CPU:0": GB, "GPU:0": 14 * GB})


@pytest.mark.parametrize("wanted", ["auto", "device", "host"])
def test_without_an_accelerator_the_device_is_the_host(wanted):
    assert choose_device(wanted, STORE, {"CPU:0": 16 * GB}) == "CPU:0"
    with pytest.raises(DoesNotFit, match="of host memory"):
        choose_device(wanted, STORE, {"CPU:0": 12 * GB})


def test_a_tenth_of_what_is_free_stays_free():
    size = StoreSize(capacity=8, in_progress=1, nbytes_each=100)
    assert choose_device("host", size, {"CPU:0": 1000}) == "CPU:0"
    with pytest.raises(DoesNotFit):
        choose_device("host", size, {"CPU:0": 998})


def test_says_what_is_needed_what_there_is_and_what_would_fit():
    size = StoreSize(capacity=100_000, in_progress=64, nbytes_each=876_000)
    free = {"CPU:0": int(22.4 * GB), "TPU:0": int(20.0445 * GB)}
    needs = (
        "a replay of 100,000 sequences, with 64 more in progress, needs 87.7 GB (876 kB each), and {} memory are free "
        "for it: a Replay.capacity of at most {} fits"
    )
    for wanted, available, fits in (
        ("host", "20.2 GB of host", "22,900"),
        ("device", "14 GB of device", "15,900"),
        ("auto", "20.2 GB of host", "22,900"),
    ):
        with pytest.raises(DoesNotFit) as error:
            choose_device(wanted, size, free)
        assert str(error.value) == needs.format(available, fits)
    assert choose_device("host", size._replace(capacity=22_900), free) == "CPU:0"
    assert choose_device("device", size._replace(capacity=15_900), free) == "TPU:0"


def test_says_when_not_even_one_fits():
    with pytest.raises(DoesNotFit, match="needs 1.1 kB .100 bytes each., and 900 bytes of host .*: not even one fits$"):
        choose_device("auto", StoreSize(1, 10, 100), {"CPU:0": 1000})


def test_an_unknown_place_is_refused():
    with pytest.raises(ValueError, match="one of auto, device, host, not disk"):
        choose_device("disk", STORE, {"CPU:0": GB})


def test_logs_size_and_place(monkeypatch, caplog):
    monkeypatch.setattr(placement, "free_memory", lambda accelerator: {"CPU:0": 64 * GB, "GPU:0": 17 * GB})
    with caplog.at_level(logging.INFO, "seed_rl.buffers.placement"):
        assert place_store(STORE, "auto") == "GPU:0"
        assert place_store(STORE, "host") == "CPU:0"
    assert [record.getMessage() for record in caplog.records] == [
        "Replay of 100 sequences: 11 GB in device memory (GPU:0)",
        "Replay of 100 sequences: 11 GB in host memory (CPU:0)",
    ]


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (1234567, "1.23 MB"), (5 * 10**12, "5,000 GB")],
)
def test_sizes_have_three_digits(nbytes, text):
    assert placement._in_bytes(nbytes) == text


def test_this_machine_has_free_memory():
    free = free_memory()
    assert 0 < free["CPU:0"] < 2**60
    assert all(tf.config.list_logical_devices(name.partition(":")[0]) for name in free)


class FakeDevice:
    def __init__(self, name, memory_limit):
        self.name, self.memory_limit = name, memory_limit


@pytest.mark.parametrize("kind", ["GPU", "TPU"])
def test_free_device_memory_is_the_limit_minus_what_is_used(monkeypatch, kind):
    monkeypatch.setattr(placement, "has_accelerator", lambda: True)
    monkeypatch.setattr(placement, "free_host_memory", lambda: 7 * GB)
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda wanted: ["one"] if wanted == kind else [])
    devices = [
        FakeDevice("/device:CPU:0", 1),
        FakeDevice(f"/device:{kind}:1", 2),
        FakeDevice(f"/device:{kind}:0", 16 * GB),
    ]
    monkeypatch.setattr(placement.device_lib, "list_local_devices", lambda: devices)
    used = {f"{kind}:0": {"current": 3 * GB, "peak": 5 * GB}}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", used.__getitem__)
    assert free_memory() == {"CPU:0": 7 * GB, f"{kind}:0": 13 * GB}


def machine(root, files):
    """A directory with such files in place of /proc and /sys."""
    for name, text in {
        "proc/meminfo": "MemTotal: 99 kB\nMemAvailable: 16000 kB\nHugePages_Total: 0\n",
        **files,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def v2_group(path, limit, usage, cache):
    return {
        f"sys/fs/cgroup{path}/memory.max": f"{limit}\n",
        f"sys/fs/cgroup{path}/memory.current": f"{usage}\n",
        f"sys/fs/cgroup{path}/memory.stat": f"anon 1\nfile 77\ninactive_file {cache}\nactive_file 5\n",
    }


def v1_group(path, limit, usage, cache):
    return {
        f"sys/fs/cgroup/memory{path}/memory.limit_in_bytes": f"{limit}\n",
        f"sys/fs/cgroup/memory{path}/memory.usage_in_bytes": f"{usage}\n",
        f"sys/fs/cgroup/memory{path}/memory.stat": f"cache 1\ninactive_file 9\ntotal_inactive_file {cache}\n",
    }


V1_LINES = "5:cpu,cpuacct:/a\n4:memory:{}\n1:name=systemd:/a\n"
AVAILABLE = 16_000 * 1024


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param({}, AVAILABLE, id="no groups"),
        pytest.param({"proc/self/cgroup": "0::/\n"}, AVAILABLE, id="v2, the root has no limit"),
        pytest.param({"proc/self/cgroup": "0::/a\n", **v2_group("/a", "max", 9, 0)}, AVAILABLE, id="v2, unlimited"),
        pytest.param({"proc/self/cgroup": "0::/a\n", **v2_group("/a", 5000, 1200, 200)}, 4000, id="v2, limited"),
        pytest.param(
            {"proc/self/cgroup": "0::/a/b\n", **v2_group("/a/b", "max", 100, 0), **v2_group("/a", 5000, 2000, 0)},
            3000,
            id="v2, limited by the group around it",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/a/b\n", **v2_group("/a/b", 1000, 100, 0), **v2_group("/a", 5000, 2000, 0)},
            900,
            id="v2, the tighter limit counts",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/host/x\n", **v2_group("", 5000, 1000, 0)}, 4000, id="v2, inside a container"
        ),
        pytest.param({"proc/self/cgroup": "0::/a\n", **v2_group("/a", 5000, 6000, 0)}, 0, id="v2, over the limit"),
        pytest.param(
            {"proc/self/cgroup": "0::/a\n", **v2_group("/a", 2**60, 1000, 0)}, AVAILABLE, id="v2, more than there is"
        ),
        pytest.param(
            {"proc/self/cgroup": V1_LINES.format("/a"), **v1_group("/a", 5000, 1200, 200)}, 4000, id="v1, limited"
        ),
        pytest.param(
            {"proc/self/cgroup": V1_LINES.format("/a"), **v1_group("/a", 9223372036854771712, 1200, 200)},
            AVAILABLE,
            id="v1, unlimited",
        ),
        pytest.param(
            {"proc/self/cgroup": V1_LINES.format("/docker/x"), **v1_group("", 5000, 1000, 0)},
            4000,
            id="v1, inside a container",
        ),
        pytest.param(
            {"proc/self/cgroup": V1_LINES.format("/a") + "0::/a\n", **v1_group("/a", 5000, 1000, 0)},
            4000,
            id="v1 for memory beside v2",
        ),
    ],
)
def test_free_host_memory_heeds_control_groups(tmp_path, files, free):
    assert free_host_memory(machine(tmp_path, files)) == free


def test_bytes_of_a_sequence_are_what_a_store_takes():
    spec = Unroll(
        initial_state=(tf.TensorSpec([2], tf.float32), tf.TensorSpec([3], tf.bfloat16)),
        prev_action=tf.TensorSpec([], tf.int32),
        env_output=EnvOutput(
            tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.bool), {"a": tf.TensorSpec([3, 2], tf.uint8)}
        ),
        action=tf.TensorSpec([], tf.int32),
        behaviour=(),
    )
    # Per step: prev_action 4, reward 4, done 1, observation 6, action 4; per sequence: states 8 and 6.
    assert sequence_nbytes(spec, 7) == 7 * 19 + 14
    assert UnrollStore(spec, 7, 4).nbytes == 5 * sequence_nbytes(spec, 7)  # one spare
