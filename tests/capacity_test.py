"""The capacity model, against numbers worked out by hand."""

import math

import pytest

from seed_rl.capacity import (
    CORES,
    DEVICE,
    INFERENCE,
    SERVER,
    UPDATES,
    Accelerator,
    Costs,
    Training,
    actor_needs,
    capacity,
    traffic,
)

COSTS = Costs(
    group_size=4,
    server_per_message=40e-6,  # 10 µs per observation: 100,000/s at the most
    transport_per_observation=20e-6,
    host_per_observation=5e-6,
    act_serial_per_observation=30e-6,
    act_parallel_per_observation=200e-6,
)


def test_few_cores_are_the_limit_of_acting_on_them():
    carried = capacity(COSTS, cores=2, step_seconds=0.1)
    assert carried.limits == pytest.approx({SERVER: 100_000, INFERENCE: 1 / 130e-6, CORES: 2 / 250e-6})
    assert carried.limit == INFERENCE
    assert carried.actors == math.floor(0.1 / 130e-6 / 4)


def test_more_cores_help_the_parallel_part_only():
    rates = [capacity(COSTS, cores, 0.1).observations_per_second for cores in (1, 2, 8, 32, 1000)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(1 / 250e-6)  # one core does everything in turn
    assert rates[-1] == pytest.approx(1 / 30e-6, rel=0.01)


def test_the_servers_thread_caps_what_an_accelerator_could_do():
    fast = Accelerator(batch=256, seconds_per_batch=1e-4)
    few, many = (capacity(COSTS, cores, 0.1, fast) for cores in (2, 96))
    assert (few.limit, few.observations_per_second) == (CORES, pytest.approx(2 / 25e-6))
    assert (many.limit, many.observations_per_second) == (SERVER, pytest.approx(100_000))
    assert many.actors == 2500
    slow = capacity(COSTS, 96, 0.1, Accelerator(batch=100, seconds_per_batch=0.0095))
    assert (slow.limit, slow.observations_per_second) == (INFERENCE, pytest.approx(10_000))


def test_slower_environments_make_more_actors():
    assert capacity(COSTS, 8, 0.2).actors == pytest.approx(2 * capacity(COSTS, 8, 0.1).actors, abs=1)
    for cores, step in ((0, 0.1), (2, 0.0)):
        with pytest.raises(ValueError, match="a host needs cores"):
            capacity(COSTS, cores, step)


def test_acting_and_training_take_turns_on_an_accelerator():
    # 10 µs per observation to act, 50 ms per 2,500 new steps: 20 µs.
    device, training = Accelerator(batch=100, seconds_per_batch=1e-3), Training(steps=2500, seconds=0.05)
    carried = capacity(COSTS, 96, 0.1, device, training)
    assert carried.limits[DEVICE] == pytest.approx(1 / 30e-6)
    assert (carried.limit, carried.actors) == (DEVICE, math.floor(0.1 / 30e-6 / 4))
    # On ten cores that also take 25 µs of CPU per observation for the wire and for batching: 2.5 µs more.
    assert capacity(COSTS, 10, 0.1, device, training, on_cores=True).limits[DEVICE] == pytest.approx(1 / 32.5e-6)
    # Two such devices act in half of the time, each with a thread; one that also trains waits for all of the update.
    two = capacity(COSTS, 96, 0.1, device._replace(devices=2), training)
    assert two.limits[DEVICE] == pytest.approx(1 / 25e-6)
    assert two.limits[INFERENCE] == pytest.approx(2 * carried.limits[INFERENCE])
    # Where others train, nobody takes turns.
    apart = capacity(COSTS, 96, 0.1, device, training._replace(apart=True))
    assert apart.limits[UPDATES] == pytest.approx(1 / 20e-6)
    assert DEVICE not in apart.limits
    # The other limits are as they were.
    assert {**carried.limits, DEVICE: 0} == {**capacity(COSTS, 96, 0.1, device).limits, DEVICE: 0}
    with pytest.raises(ValueError, match="must be given as the accelerator"):
        capacity(COSTS, 10, 0.1, training=training)


def test_each_device_that_acts_gets_as_many_groups():
    assert actor_needs(10_000, 1000, 16, 0.016, devices=2) == (10, 2, 320)
    assert actor_needs(9_000, 1000, 16, 0.016, devices=4) == (9, 4, 576), "18 groups can't be divided by four"
    assert actor_needs(500, 1000, 16, 0.0, batch=64, devices=2) == (1, 8, 128), "a batch for each"


@pytest.mark.parametrize(
    ("rate", "core_rate", "group_size", "latency", "batch", "expected"),
    [
        (10_000, 1000, 16, 0.0, 1, (10, 1, 160)),  # nobody waits: one group per core
        (10_000, 1000, 16, 0.016, 1, (10, 2, 320)),  # a group steps 16 ms: one other hides exactly as much
        (10_000, 1000, 16, 0.017, 1, (10, 3, 480)),
        (10_001, 1000, 16, 0.016, 1, (11, 2, 352)),
        (500, 1000, 16, 0.0, 64, (1, 4, 64)),  # one core, but batches of 64
    ],
)
def test_actors_are_as_many_as_keep_all_cores_stepping(rate, core_rate, group_size, latency, batch, expected):
    assert actor_needs(rate, core_rate, group_size, latency, batch) == expected


def test_traffic_counts_what_is_on_the_line():
    # 100 messages of 14,480 bytes a second in ten packets each, and answers of 64 bytes.
    up, down = traffic(rate=1600, group_size=16, step_bytes=14_480, action_bytes=64)
    assert up == pytest.approx(100 * (15_380 + 100))
    assert down == pytest.approx(100 * (64 * 1538 / 1448 + 100))
