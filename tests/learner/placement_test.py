import dataclasses
import logging
import re
from types import SimpleNamespace

import numpy as np
import pytest

from seed_rl.experiment import ConfigError, Experiment, Replay
from seed_rl.experiment.sizes import Sizes
from seed_rl.learner import placement
from seed_rl.learner.placement import choose_device, free_memory, place_store
from seed_rl.runs import assembly
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig

GB = 10**9
EXPERIMENT = Experiment(env=Counting(), agent=CountingAgentConfig())
SOME = Sizes.of(EXPERIMENT, EXPERIMENT.build_agent())


def store(capacity, in_progress, nbytes_each, **others):
    """The sizes of a replay of unrolls of one step, with places for others, the spare one among them."""
    count = capacity + in_progress - 1
    places = {"num_slots": count, "num_places": count, "stride": 1, "window": 1}
    sizes = {"replay_capacity": capacity, "state_nbytes": 0, "step_nbytes": nbytes_each}
    return dataclasses.replace(SOME, **places | sizes | others)


# 11 GB: fits where 12.3 GB are free on the host, or 16.7 GB on an accelerator.
STORE = store(capacity=100, in_progress=10, nbytes_each=10**8)


@pytest.mark.parametrize(
    ("wanted", "device_gb", "host_gb", "chosen"),
    [
        ("auto", 17, 64, "GPU:0"),
        ("auto", 16, 64, "CPU:0"),
        ("device", 17, 64, "GPU:0"),
        ("host", 17, 64, "CPU:0"),
        ("auto", None, 13, "CPU:0"),
        ("device", None, 13, "CPU:0"),
    ],
)
def test_a_replay_is_on_the_device_if_it_fits_there(wanted, device_gb, host_gb, chosen):
    device = {} if device_gb is None else {"GPU:0": device_gb * GB}
    assert choose_device(wanted, STORE, {"CPU:0": host_gb * GB, **device}) == chosen


@pytest.mark.parametrize(
    ("sizes", "host_gb", "sentence"),
    [
        (STORE, 12, "10.8 GB of CPU:0"),
        (store(1, 10, GB), 10, "11 GB (1 GB each), and 9 GB of CPU:0 are free: shorten unrolls"),
        (store(96, 1, GB, replay_capacity=0), 12, "10.8 GB of CPU:0 are free: shorten unrolls"),
    ],
)
def test_a_store_that_does_not_fit_is_refused(sizes, host_gb, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        choose_device("device", sizes, {"CPU:0": host_gb * GB})


@pytest.mark.parametrize(
    ("wanted", "memory", "capacity", "device"),
    [("device", "14 GB of TPU:0", 15_963, "TPU:0"), ("auto", "20.2 GB of CPU:0", 22_949, "CPU:0")],
)
def test_a_refusal_names_a_capacity_that_fits(wanted, memory, capacity, device):
    free = {"CPU:0": int(22.4 * GB), "TPU:0": int(20.0445 * GB)}
    sentence = f"{memory} are free: a Replay.capacity of at most {capacity:,} fits"
    with pytest.raises(ConfigError, match=sentence):
        choose_device(wanted, store(100_000, 64, 876_000), free)
    assert choose_device(wanted, store(capacity, 64, 876_000), free) == device


def test_stores_share_the_memory_of_the_host_and_are_logged(monkeypatch, caplog):
    monkeypatch.setattr(placement, "free_memory", lambda accelerator: {"CPU:0": 26 * GB, accelerator: 17 * GB})
    with caplog.at_level(logging.INFO, "seed_rl.learner.placement"):
        assert place_store(STORE, "auto", "GPU:1") == "GPU:1"
        assert place_store(STORE, "host", "GPU:1", sharers=2) == "CPU:0"
    with pytest.raises(ConfigError, match="7.8 GB of CPU:0"):
        place_store(STORE, "host", "GPU:1", sharers=3)
    assert [record.getMessage() for record in caplog.records] == [
        "store of 109 unrolls: 11 GB on GPU:1",
        "store of 109 unrolls: 11 GB on CPU:0",
    ]


def test_without_an_accelerator_a_replay_is_on_the_device_that_acts(monkeypatch):
    monkeypatch.setattr(assembly, "Acting", lambda agent, sizes, settings, seed, places, **_: places)
    own, sizes = np.ones(SOME.num_envs, bool), dataclasses.replace(SOME, num_devices=2)
    experiment = SimpleNamespace(replay=Replay(), inference=None)
    replicas = SimpleNamespace(inference_devices=("CPU:0", "CPU:1"))
    parts = SimpleNamespace(sizes=sizes, experiment=experiment, replicas=replicas, agents=(0, 1), seed_of=int, own=own)
    assert assembly.Assembly().acting(parts, 1) == ("CPU:1", "CPU:1")


def test_an_accelerator_has_the_memory_that_tensorflow_may_use_and_does_not_yet(monkeypatch):
    devices = [SimpleNamespace(name=f"/device:GPU:{number}", memory_limit=100 + number) for number in range(2)]
    monkeypatch.setattr(placement.devices, "has_accelerator", lambda: True)
    monkeypatch.setattr(placement.device_lib, "list_local_devices", lambda: devices)
    monkeypatch.setattr(placement.tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(placement.tf.config.experimental, "get_memory_info", lambda name: {"current": 40})
    assert (free_memory()["GPU:0"], free_memory("GPU:1")["GPU:1"]) == (60, 61)
