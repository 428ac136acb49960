"""Number formats that processors and accelerators multiply natively."""

import os

import pytest
import tensorflow as tf

from seed_rl.agents.vtrace import VTrace
from seed_rl.system import devices, machine
from tests.system.host_memory_test import root_of


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx fma avx2 vaes\n", ["avx", "avx2", "fma"]),
        ("model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512_bf16\n", ["avx2", "avx512_bf16"]),
        ("processor\t: 0\nFeatures\t: fp asimd aes bf16\n", ["asimd", "bf16"]),
    ],
)
def test_a_cpu_multiplies_bfloat16_if_it_has_instructions_for_it(fields, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: AuthenticAMD\n{fields}")
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    assert machine.instructions() == expected
    assert machine.multiplies_bfloat16() == ("bf16" in fields)


@pytest.mark.parametrize(
    ("kind", "capability", "dtype"),
    [("TPU", None, "mixed_bfloat16"), ("GPU", (8, 0), "mixed_bfloat16"), ("GPU", (7, 5), "float32")],
)
def test_auto_is_the_format_of_the_accelerator(kind, capability, dtype, monkeypatch):
    device = tf.config.PhysicalDevice(f"/physical_device:{kind}:0", kind)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda wanted=None: [device] if wanted == kind else [])
    details = {"device_name": "a GPU", "compute_capability": capability}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert devices.native_dtype()[0] == dtype
    assert VTrace(dtype="auto").for_device() == VTrace(dtype=dtype)
    assert VTrace(dtype="mixed_bfloat16").for_device() == VTrace(dtype="mixed_bfloat16")
    assert VTrace(dtype="mixed_bfloat16").loses_by_bfloat16 == (dtype == "float32")
    assert not VTrace(dtype="auto").loses_by_bfloat16


@pytest.mark.parametrize(
    ("native", "rate", "dtype"), [(True, 1.9, "mixed_bfloat16"), (True, 0.6, "float32"), (False, 9.0, "float32")]
)
def test_auto_is_the_format_that_the_cpu_multiplies_faster(native, rate, dtype, monkeypatch):
    monkeypatch.setattr(devices, "accelerators", list)
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: native)
    monkeypatch.setattr(devices, "bfloat16_rate", lambda: rate)
    found, why = devices.native_dtype()
    assert found == dtype
    assert (f"{rate} times" in why) == native


def test_the_rate_of_bfloat16_is_measured():
    assert 0.0 < devices.bfloat16_rate() == devices.bfloat16_rate()


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2),
        ("4:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 1),
        ("4:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 7),
        ("0::/a\n", {}, 7),
    ],
)
def test_cores_are_those_of_the_affinity_within_the_limits_of_control_groups(
    groups, files, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)))
    written = {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert machine.cores(root_of(tmp_path, written)) == expected
