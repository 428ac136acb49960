"""Several devices: who does what, and that an update is the same on one and on many."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from seed_rl.experiment import Devices
from seed_rl.learner.replicas import BadDevices, Split, split

GPUS = ("GPU:0", "GPU:1", "GPU:2", "GPU:3")
PROCESS = pathlib.Path(__file__).with_name("replicas_process.py")
COUNTS = (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("devices", "available", "batch_size", "expected"),
    [
        (Devices(), ["CPU:0"], 32, Split(("CPU:0",), "CPU:0")),
        (Devices(), ["CPU:0", "CPU:1"], 32, Split(("CPU:0",), "CPU:0")),
        (Devices(), GPUS[:1], 32, Split(("GPU:0",), "GPU:0")),
        (Devices(), GPUS[:2], 32, Split(("GPU:1",), "GPU:0")),
        (Devices(), GPUS, 33, Split(GPUS[1:], "GPU:0")),
        (Devices(), GPUS, 32, Split(GPUS[1:3], "GPU:0")),
        (Devices(inference="GPU:2"), GPUS, 33, Split(("GPU:0", "GPU:1", "GPU:3"), "GPU:2")),
        (Devices(training=GPUS[:2]), GPUS, 32, Split(GPUS[:2], "GPU:2")),
        (Devices(training=GPUS), GPUS, 32, Split(GPUS, "GPU:0")),
        (Devices(training=("GPU:3",)), GPUS, 32, Split(("GPU:3",), "GPU:3")),
        (Devices(training=("GPU:3",), inference="GPU:0"), GPUS, 32, Split(("GPU:3",), "GPU:0")),
    ],
)
def test_who_trains_and_who_acts(devices, available, batch_size, expected):
    assert split(devices, available, batch_size) == expected


@pytest.mark.parametrize(
    ("devices", "batch_size", "sentence"),
    [
        (Devices(training=("GPU:9",)), 32, "there is no device 'GPU:9': there are GPU:0, GPU:1, GPU:2, GPU:3"),
        (Devices(inference="TPU:0"), 32, "there is no device 'TPU:0'"),
        (Devices(training=("GPU:1", "GPU:1")), 32, "names a device twice: GPU:1, GPU:1"),
        (
            Devices(training=GPUS[:3]),
            32,
            r"batch_size \(32\) must be a multiple of .* that train \(3: GPU:0",
        ),
    ],
)
def test_what_cannot_be_is_said(devices, batch_size, sentence):
    with pytest.raises(BadDevices, match=sentence):
        split(devices, GPUS, batch_size)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of `replicas_process`, by agent and number of devices."""
    directory = tmp_path_factory.mktemp("replicas")
    for count in COUNTS:
        command = [sys.executable, str(PROCESS), str(count), str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        assert done.returncode == 0, done.stderr[-2000:]
    return {path.stem: dict(np.load(path)) for path in directory.iterdir()}


@pytest.mark.parametrize("count", COUNTS[1:])
@pytest.mark.parametrize("agent", ["vtrace", "r2d2"])
def test_an_update_is_the_same_on_one_device_and_on_many(agent, count, results):
    one, many = results[f"{agent}-1"], results[f"{agent}-{count}"]
    assert list(one) == list(many)
    assert {name for name in one if "gradient_norm" in name or "weight" in name}
    for name, value in one.items():
        scale = max(1e-3, np.abs(value).max(initial=0))
        np.testing.assert_allclose(many[name] / scale, value / scale, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("agent", ["vtrace", "r2d2"])
def test_what_acts_has_the_weights_of_what_learns_once_it_is_refreshed(agent, count, results):
    found = results[f"{agent}-{count}"]
    weights = [value for name, value in found.items() if name.startswith("weight")]
    fresh = [value for name, value in found.items() if name.startswith("fresh")]
    stale = [value for name, value in found.items() if name.startswith("stale")]
    for weight, after in zip(weights, fresh, strict=False):
        np.testing.assert_array_equal(weight, after)
    assert any(np.any(before != after) for before, after in zip(stale, fresh, strict=True))
