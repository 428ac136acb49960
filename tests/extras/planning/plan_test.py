"""`seed_rl plan`, checked against worked examples."""

import numpy as np
import pytest

from seed_rl.cli.main import main
from seed_rl.experiment import Actors, config_files
from seed_rl.extras.planning import plan as planning
from seed_rl.extras.planning.plan import (
    CORES,
    DEVICE,
    INFERENCE,
    LOCK,
    LOCKED_SHARE,
    SERVER,
    UPDATES,
    Rates,
    find_rates,
    plan,
)

RATES = Rates(
    env_steps=1000, act_ms=2, act_batch=32, update_ms=40, server_us=160, host_us=10, learner_cores=4, accelerators=1
)
STEP = 128 + 4 + 1 + 1 + 4 + 4 + 12 + 4
"""Bytes of a step of Catch: padded observation, reward, done, truncated, two actions, three logits and the value."""


def load(name, *bindings):
    experiment = config_files.load([name], list(bindings))
    return experiment, experiment.build_agent()


@pytest.fixture(scope="module")
def catch():
    return load("catch/vtrace")  # batches of 16 unrolls of 20, groups of 16, 50 bytes, 3 actions


def test_a_learner_with_an_accelerator(catch):
    needs = plan(*catch, RATES, rtt_seconds=0.004)
    rate, lock = 1 / 187.5e-6, 1 / (LOCKED_SHARE * 20e-6)  # 2 ms / 32 + 40 ms / 320: 62.5 and 125 µs per step
    limits = {DEVICE: rate, INFERENCE: 1 / 72.5e-6, LOCK: lock, SERVER: 1e5, CORES: 4 / 20e-6}
    assert needs.limits == pytest.approx(limits)
    assert (next(iter(needs.limits)), needs.rate, needs.processes) == (DEVICE, pytest.approx(rate), 1)
    # 4 ms of network and two act steps, twice as long each; a group steps for 16 ms.
    assert needs.latency_seconds == pytest.approx(0.012)
    assert needs.actors == Actors(6, 2, 16, 0)
    # A step is 4 + 1 + 50 bytes, and 3 for each message; an action 4 bytes, and 2.
    assert needs.up == pytest.approx(rate / 16 * (899 * 1538 / 1448 + 100))
    assert needs.down == pytest.approx(rate / 16 * (66 * 1538 / 1448 + 100))
    assert needs.kept_bytes == 16 * 21 * STEP
    # One in progress of each environment, 16 queued, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (192 + 16 + 32) * 21 * STEP + STEP


def test_without_an_accelerator_the_transport_uses_the_same_cores_and_devices_for_both_take_turns(catch):
    needs = plan(*catch, RATES._replace(accelerators=0), rtt_seconds=0.0)
    # 10 µs per step of the server (160 per message of 16) and 10 of batching, by four cores.
    assert needs.rate == pytest.approx(1 / (187.5e-6 + 20e-6 / 4))
    both = load("catch/vtrace", "Devices.training = ('TPU:0', 'TPU:1')", "Devices.inference = ('TPU:0',)")
    needs = plan(*both, RATES._replace(accelerators=2), 0.004)
    assert needs.limits[DEVICE] == pytest.approx(1 / (62.5e-6 + 62.5e-6))


def test_of_several_accelerators_some_act_and_some_train():
    needs = plan(*load("catch/vtrace", "Experiment.batch_size = 18"), RATES._replace(accelerators=8), 0.004)
    assert (len(needs.devices.inference), len(needs.devices.training)) == (2, 6)
    # An update for 360 steps takes 40 ms / 6, beside acting; two threads batch and act: 72.5 µs per step.
    assert (next(iter(needs.limits)), needs.processes) == (INFERENCE, 1)
    assert needs.limits[UPDATES] == pytest.approx(54_000)
    assert needs.rate == pytest.approx(2 / 72.5e-6)
    assert needs.latency_seconds == pytest.approx(0.008)
    assert (needs.actors, needs.kept_bytes) == (Actors(28, 2, 16, 0), 18 * 21 * STEP)
    # On each of the two: half of the environments, half of the queue, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (448 + 9 + 32) * 21 * STEP + STEP


def test_a_host_of_eight_accelerators_has_as_many_learner_processes_as_its_messages_need():
    experiment = load("catch/vtrace", "Experiment.batch_size = 18")
    rates = RATES._replace(accelerators=8, update_ms=1, learner_cores=64)
    for server_us, host_us, limit, processes in (
        (1600, 0, SERVER, 4),  # 100 µs per step against 31: 3.2 processes, but they have equal shares of eight
        (640, 60, LOCK, 2),  # 65 against 61 to batch and act
        (1e6, 0, SERVER, 8),  # an accelerator can't be shared
    ):
        needs = plan(*experiment, rates._replace(server_us=server_us, host_us=host_us), 0.0)
        assert (next(iter(needs.limits)), needs.processes) == (limit, processes)


def test_a_replay_is_memory_and_more_updates_per_step():
    experiment, agent = load("catch/r2d2", "Replay.ratio = 2.0", "Replay.capacity = 5000")
    needs = plan(experiment, agent, RATES, 0.0)
    new_steps = experiment.batch_size * agent.unroll_length / 2
    assert needs.limits[DEVICE] == pytest.approx(1 / (62.5e-6 + 0.04 / new_steps))
    assert needs.kept_bytes % 5000 == 0
    assert needs.kept_bytes > 5000 * agent.unroll_length * 50


def test_actors_keep_all_cores_stepping(catch):
    rates = RATES._replace(act_ms=1e-9, update_ms=1e-6, server_us=1600, act_batch=1)
    for changes, rtt, needed in (
        ({}, 0.0, (10, 1)),  # no latency: one group per core
        ({}, 0.016, (10, 2)),  # a group steps for 16 ms: another one hides exactly as much
        ({}, 0.017, (10, 3)),
        ({"server_us": 32_000, "act_batch": 64}, 0.0, (1, 4)),  # one core, but batches of 64
    ):
        assert plan(*catch, rates._replace(**changes), rtt).actors == Actors(*needed, 16, 0)


def test_rates_that_are_not_given_are_measured_here(monkeypatch):
    monkeypatch.setattr(planning, "SECONDS", 0.0)  # a single call each
    experiment, agent = load("catch/r2d2")
    before = [variable.numpy() for variable in agent.model.trainable_variables]
    rates, sources = find_rates(experiment, agent, {"learner_cores": 3, "server_us": 30.0, "host_us": None})
    assert min(rates.env_steps, rates.act_ms, rates.update_ms, rates.host_us) > 0
    assert (rates.learner_cores, rates.server_us, rates.accelerators) == (3, 30.0, 0)
    assert rates.act_batch == experiment.inference.max_batch_size
    assert (sources["server_us"], sources["act_ms"]) == ("given", "measured here")
    for variable, value in zip(agent.model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


COMMAND = ["plan", "--gin_file=catch/vtrace", *(f"--{name}={value}" for name, value in RATES._asdict().items())]


def test_the_command_prints_the_plan(capsys):
    assert main([*COMMAND, "--rtt_ms=4", "--machine_cores=4"]) == 0
    out = capsys.readouterr().out
    for words in ("5,333 frames/s", "0.0156 hours", "2.81 Mbit/s", "0.454 Mbit/s", "--num_actors=6 --gin_param"):
        assert words in out, out
