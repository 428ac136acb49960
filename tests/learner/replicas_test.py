"""Several devices: their split into training and inference devices, and that an update is the same on one and many."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.vtrace import VTrace
from seed_rl.experiment import Actors, ConfigError, Devices, Experiment, Replay
from seed_rl.learner.device_split import DeviceSplit, split_devices
from seed_rl.learner.replicas import assignment
from tests.support.counting import Counting
from tests.support.processes import run_module

CPU = ("CPU:0",)
GPUS = tuple(f"GPU:{number}" for number in range(8))
TPUS = tuple(f"TPU:{number}" for number in range(8))


def experiment(batch_size=32, training=(), inference=(), groups=4, snapshot=False, minibatches=1):
    return Experiment(
        env=Counting(),
        agent=R2D2() if snapshot else VTrace(),
        replay=Replay(min_size=1, snapshot=True) if snapshot else None,
        batch_size=batch_size,
        minibatches=minibatches,
        actors=Actors(num_actors=1, groups_per_actor=groups, envs_per_group=2),
        devices=Devices(training, inference),
    )


@pytest.mark.parametrize(
    ("asked", "available", "expected"),
    [
        (experiment(), CPU, DeviceSplit(CPU, CPU)),
        (experiment(), GPUS[:2], DeviceSplit(GPUS[1:2], GPUS[:1])),
        (experiment(), GPUS[:4], DeviceSplit(GPUS[1:3], GPUS[:1])),
        (experiment(33), GPUS[:4], DeviceSplit(GPUS[1:4], GPUS[:1])),
        (experiment(36), TPUS, DeviceSplit(TPUS[2:], TPUS[:2])),
        (experiment(32), TPUS, DeviceSplit(TPUS[2:6], TPUS[:2])),
        (experiment(36, groups=3), TPUS, DeviceSplit(TPUS[3:6], TPUS[:3])),
        (experiment(36, snapshot=True), TPUS, DeviceSplit(TPUS[1:7], TPUS[:1])),
        (experiment(36, minibatches=9), TPUS, DeviceSplit(TPUS[2:6], TPUS[:2])),
        (experiment(33, inference=GPUS[2:3]), GPUS[:4], DeviceSplit(("GPU:0", "GPU:1", "GPU:3"), GPUS[2:3])),
        (experiment(inference=GPUS[:2]), GPUS[:2], DeviceSplit(GPUS[:2], GPUS[:2])),
        (experiment(training=GPUS[:2]), GPUS[:4], DeviceSplit(GPUS[:2], GPUS[2:3])),
        (experiment(training=GPUS[3:4]), GPUS, DeviceSplit(GPUS[3:4], GPUS[3:4])),
        (experiment(training=GPUS[4:], inference=GPUS[:4]), GPUS, DeviceSplit(GPUS[4:], GPUS[:4])),
    ],
)
def test_training_and_inference_devices(asked, available, expected):
    assert split_devices(asked, available) == expected


@pytest.mark.parametrize(
    ("asked", "hosts", "word"),
    [
        (experiment(training=("GPU:9",)), 1, "GPU:9"),
        (experiment(training=GPUS[:3]), 1, "batch_size"),
        (experiment(36, training=GPUS[:4]), 2, r"batch_size \(18 on each of the hosts\)"),
        (experiment(training=GPUS[:4], minibatches=16), 1, "minibatches"),
        (experiment(training=GPUS[:4], inference=GPUS[4:7]), 1, "training devices .* multiple"),
        (experiment(training=GPUS[:2], inference=GPUS[2:4], groups=3), 1, "groups_per_actor"),
        (experiment(training=GPUS[:2], inference=GPUS[2:4], snapshot=True), 1, "Replay.snapshot"),
    ],
)
def test_impossible_splits_are_refused(asked, hosts, word):
    with pytest.raises(ConfigError, match=word):
        split_devices(asked, GPUS, hosts)


def test_replicas_are_on_the_training_cores_of_a_tpu():
    cores = [(x, y, 0, core) for y in range(2) for x in range(2) for core in range(2)]
    topology = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=np.array([cores]))
    placed = assignment(topology, TPUS[2:6])
    assert (placed.num_replicas, placed.num_cores_per_replica) == (4, 1)
    assert [placed.tpu_ordinal(replica=replica) for replica in range(4)] == [2, 3, 4, 5]
    assert [tuple(placed.coordinates(replica, 0)) for replica in range(4)] == cores[2:6]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The arrays of `replicas_process` by number of devices; it also checks minibatches and the copies that act."""
    directory = tmp_path_factory.mktemp("replicas")
    run_module("tests.learner.replicas_process", directory)
    return {path.stem: dict(np.load(path)) for path in directory.iterdir()}


def test_an_update_is_the_same_on_one_device_and_on_two(results):
    one, two = results["1"], results["2"]
    assert {"0 gradient_norm", "1 entropy_cost/gradient_norm", "1 policy/value_unit", "1 reward"} <= set(one)
    assert any(name.startswith("weight") for name in one)
    for name, value in one.items():
        if not name.endswith(("explained_variance", "entropy_share")):  # ratios, whose mean is another number
            scale = max(1e-3, np.abs(value).max(initial=0))
            np.testing.assert_allclose(two[name] / scale, value / scale, rtol=0, atol=1e-5, err_msg=name)


def test_several_inference_devices_give_each_training_device_its_part_of_a_batch(results):
    for name in ("0 reward", "1 reward"):
        np.testing.assert_array_equal(results["4"][name], results["1"][name])
